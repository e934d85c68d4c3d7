"""Attempts over time, from the workers' statistics, and charts of them as shapes for inline SVG."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ...display.formatting import format_duration, format_number
from ...display.scope import Scope
from ...taskqueue.statistics import Backlog, backlogs_since, sums_since

WIDTH, HEIGHT = 1000.0, 120.0
GAP = 0.18
SPARK_HEIGHT, BACKLOG_HEIGHT = 20.0, 60.0
SPARK_BARS = 20
KINDS = (("failed", "failed"), ("retried", "retried"), ("completed", "success"))
"""The counts in the order in which they are stacked, from the bottom up, each with its colour."""

Shape = dict[str, str]


@dataclass(frozen=True, slots=True)
class Scale:
    label: str | Promise
    step: timedelta
    count: int
    title: str | Promise


SCALES = {
    "1h": Scale(gettext_lazy("Last hour"), timedelta(minutes=1), 60, gettext_lazy("Attempts per minute")),
    "24h": Scale(gettext_lazy("Last 24 hours"), timedelta(minutes=15), 96, gettext_lazy("Attempts per 15 minutes")),
}


@dataclass(slots=True)
class Bucket:
    start: datetime
    completed: int = 0
    retried: int = 0
    failed: int = 0

    @property
    def attempts(self) -> int:
        return self.completed + self.failures

    @property
    def failures(self) -> int:
        return self.retried + self.failed


@dataclass(slots=True)
class Activity:
    """All attempts, and those of each queue, in buckets from the oldest to the newest."""

    scale: Scale
    total: list[Bucket]
    queues: dict[str, list[Bucket]] = field(default_factory=dict)

    def for_queue(self, queue: str) -> list[Bucket]:
        return self.queues.get(queue) or [Bucket(bucket.start) for bucket in self.total]


def chosen_scale(request: HttpRequest) -> Scale:
    return SCALES.get(request.GET.get("span", ""), SCALES["1h"])


def read_activity(scope: Scope, scale: Scale, func_path: str = "") -> Activity:
    """Read the attempts of one function, or of all."""
    day = scope.now.replace(hour=0, minute=0, second=0, microsecond=0)
    first = (day + (scope.now - day) // scale.step * scale.step) - scale.step * (scale.count - 1)
    starts = [first + scale.step * n for n in range(scale.count)]
    total = [Bucket(start) for start in starts]
    queues: dict[str, list[Bucket]] = defaultdict(lambda: [Bucket(start) for start in starts])
    for row in sums_since(first, scope.using, "minute", "queue", func_path=func_path):
        index = int((row["minute"] - first) / scale.step)
        if 0 <= index < scale.count:
            for bucket in (total[index], queues[row["queue"]][index]):
                bucket.completed += row["completed"]
                bucket.retried += row["retried"]
                bucket.failed += row["failed"]
    return Activity(scale, total, dict(queues))


def shape(x: float, y: float, width: float, height: float, kind: str, label: str = "") -> Shape:
    """Return a rectangle. Coordinates are texts, so that no locale turns a point into a comma."""
    sizes = {"x": x, "y": max(y, 0), "width": width, "height": height}
    return {"kind": kind, "label": label, **{name: f"{size:.2f}" for name, size in sizes.items()}}


def chart_context(activity: Activity) -> dict[str, Any]:
    buckets = activity.total
    counts = {name: format_number(sum(getattr(bucket, name) for bucket in buckets)) for name, _kind in KINDS}
    summary = _("%(completed)s completed, %(retried)s failed and will be retried, %(failed)s failed permanently.")
    top = max(bucket.attempts for bucket in buckets)
    chart = {
        "shapes": [each for n, bucket in enumerate(buckets) for each in stacked_bars(bucket, n, len(buckets), top)],
        "top": format_number(top),
        "summary": summary % counts,
        "rows": [bucket for bucket in reversed(buckets) if bucket.attempts],
        "start": buckets[0].start,
        "end": buckets[-1].start,
    }
    scales = [(name, scale.label, scale is activity.scale) for name, scale in SCALES.items()]
    return {"chart": chart, "scale": activity.scale, "scales": scales}


def backlog_context(scope: Scope, activity: Activity, due: int, oldest: float) -> dict[str, Any]:
    """Draw how many tasks were due and how long the first had waited; the last bar is now. A gap is not known."""
    scale, first = activity.scale, activity.total[0].start
    found = [*backlogs_since(first, scope.using, queue=""), Backlog(scope.now, "", due, oldest)]
    bars: dict[int, tuple[int, float]] = {}
    for each in found:
        n = int((each.minute - first) / scale.step)
        before = bars.get(n, (0, 0.0))
        bars[n] = max(before[0], each.due), max(before[1], each.oldest)
    rows = [(first + scale.step * n, *bars[n]) for n in sorted(bars, reverse=True)]
    most, longest = max(due for due, _ in bars.values()), max(oldest for _, oldest in bars.values())
    return {
        "due": list(single_bars({n: due for n, (due, _) in bars.items()}, scale.count, "running")),
        "oldest": list(single_bars({n: oldest for n, (_, oldest) in bars.items()}, scale.count, "retried")),
        "most": format_number(most),
        "longest": format_duration(longest) if longest else format_number(0),
        "rows": [(at, format_number(due), format_duration(oldest) if oldest else "0") for at, due, oldest in rows],
    }


def single_bars(values: Mapping[int, float], count: int, kind: str) -> Iterator[Shape]:
    top, width = max(values.values()), WIDTH / count
    for n, value in values.items():
        if value:
            height = max(value / top * BACKLOG_HEIGHT, 1.0)
            yield shape((n + GAP / 2) * width, BACKLOG_HEIGHT - height, width * (1 - GAP), height, kind)


def stacked_bars(bucket: Bucket, n: int, count: int, top: int) -> Iterator[Shape]:
    width, filled, label = WIDTH / count, 0.0, bar_label(bucket)
    for name, kind in KINDS:
        value = getattr(bucket, name)
        if value:
            height = max(value / top * HEIGHT, 2.0)
            filled += height
            yield shape((n + GAP / 2) * width, HEIGHT - filled, width * (1 - GAP), height, kind, label)


def bar_label(bucket: Bucket) -> str:
    start = timezone.localtime(bucket.start) if timezone.is_aware(bucket.start) else bucket.start
    counts = {name: format_number(getattr(bucket, name)) for name, _kind in KINDS}
    text = _("%(time)s: %(completed)s completed, %(retried)s to be retried, %(failed)s failed")
    return text % {"time": f"{start:%H:%M}", **counts}


def sparkline(buckets: Sequence[Bucket]) -> list[Shape]:
    """Draw a small chart: attempts, the failed ones below and in red."""
    size = max(len(buckets) // SPARK_BARS, 1)
    parts = [buckets[i : i + size] for i in range(0, len(buckets), size)]
    sums = [(sum(each.attempts for each in part), sum(each.failures for each in part)) for part in parts]
    top, width = max(attempts for attempts, _failed in sums), 100 / len(sums)
    shapes = []
    for n, (attempts, failed) in enumerate(sums):
        high = max(attempts / top * SPARK_HEIGHT, 1.0) if attempts else 0.0
        red = max(failed / top * SPARK_HEIGHT, 1.0) if failed else 0.0
        for kind, height, y in (("success", high - red, SPARK_HEIGHT - high), ("failed", red, SPARK_HEIGHT - red)):
            if height > 0:
                shapes.append(shape(n * width, y, width * 0.8, height, kind))
    return shapes


def backlog_spark(activity: Activity, due: Mapping[datetime, int], current: int) -> list[Shape]:
    """Draw how many tasks of a queue were due, the last bar now."""
    step, size = activity.scale.step, activity.scale.count // SPARK_BARS
    counts = [0] * (activity.scale.count // size)
    for minute, count in [*due.items(), (activity.total[-1].start, current)]:
        n = min(int((minute - activity.total[0].start) / step) // size, len(counts) - 1)
        counts[n] = max(counts[n], count)
    return histogram(counts, "running")


def histogram(counts: Sequence[int], kind: str = "success") -> list[Shape]:
    """Draw a bar for each count, as high as its share of the largest."""
    top, width = max(counts, default=0), 100 / max(len(counts), 1)
    heights = [max(count / top * SPARK_HEIGHT, 1.0) if count else 0.0 for count in counts]
    return [shape(n * width, SPARK_HEIGHT - high, width * 0.9, high, kind) for n, high in enumerate(heights) if high]


def shares(parts: Sequence[tuple[str, int, str]]) -> list[Shape]:
    """Draw parts of a whole side by side, each with its name, count and kind."""
    total, x, shapes = sum(count for _name, count, _kind in parts) or 1, 0.0, []
    for name, count, kind in parts:
        width = count / total * WIDTH
        if count:
            label = f"{name}: {format_number(count)}"
            shapes.append(shape(x, 0, max(width, 2.0), SPARK_HEIGHT, kind, label))
        x += width
    return shapes
