"""Charts as shapes for inline SVG. Coordinates are texts, so that no locale turns a point into a comma."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone
from django.utils.translation import gettext as _

from ...display.formatting import format_number
from .activity import Bucket

WIDTH, HEIGHT = 1000.0, 120.0
GAP = 0.18
SPARK_HEIGHT = 20.0


@dataclass(frozen=True, slots=True)
class Shape:
    x: str
    y: str
    width: str
    height: str
    kind: str
    label: str


@dataclass(frozen=True, slots=True)
class Chart:
    shapes: list[Shape]
    top: str
    summary: str
    rows: list[Bucket]
    start: datetime
    end: datetime


KINDS = (("failed", "failed"), ("retried", "retried"), ("completed", "success"))
"""Which counts are stacked, from the bottom up, and in which colour."""


def attempts_chart(buckets: Sequence[Bucket]) -> Chart:
    top = max((bucket.attempts for bucket in buckets), default=0)
    shapes = [shape for n, bucket in enumerate(buckets) for shape in stacked_bars(bucket, n, len(buckets), top)]
    counts = {name: sum(getattr(bucket, name) for bucket in buckets) for name, _kind in KINDS}
    values = {name: format_number(count) for name, count in counts.items()}
    summary = (
        _("%(completed)s completed, %(retried)s failed and will be retried, %(failed)s failed permanently.") % values
    )
    rows = [bucket for bucket in reversed(buckets) if bucket.attempts]
    return Chart(shapes, format_number(top), summary, rows, buckets[0].start, buckets[-1].start)


def stacked_bars(bucket: Bucket, n: int, count: int, top: int) -> list[Shape]:
    slot = WIDTH / count
    shapes, filled, label = [], 0.0, bar_label(bucket)
    for name, kind in KINDS:
        value = getattr(bucket, name)
        if value:
            height = max(value / top * HEIGHT, 2.0)
            filled += height
            shapes.append(
                Shape(
                    f"{n * slot + slot * GAP / 2:.2f}",
                    f"{max(HEIGHT - filled, 0):.2f}",
                    f"{slot * (1 - GAP):.2f}",
                    f"{height:.2f}",
                    kind,
                    label,
                )
            )
    return shapes


def bar_label(bucket: Bucket) -> str:
    start = timezone.localtime(bucket.start) if timezone.is_aware(bucket.start) else bucket.start
    values = {
        "time": f"{start:%H:%M}",
        "completed": format_number(bucket.completed),
        "retried": format_number(bucket.retried),
        "failed": format_number(bucket.failed),
    }
    return _("%(time)s: %(completed)s completed, %(retried)s to be retried, %(failed)s failed") % values


def sparkline(buckets: Sequence[Bucket], points: int = 20) -> list[Shape]:
    """A small chart: attempts, the failed ones below and in red, in as many bars as there is room for."""
    size = max(len(buckets) // points, 1)
    parts = [buckets[i : i + size] for i in range(0, len(buckets), size)]
    sums = [(sum(b.attempts for b in part), sum(b.failed + b.retried for b in part)) for part in parts]
    top, slot = max((attempts for attempts, _failed in sums), default=0), 100 / max(len(sums), 1)
    return [
        shape
        for n, (attempts, failed) in enumerate(sums)
        if attempts
        for shape in spark_bars(n * slot, slot * 0.8, attempts / top * SPARK_HEIGHT, failed / top * SPARK_HEIGHT)
    ]


def spark_bars(x: float, width: float, attempts: float, failed: float) -> list[Shape]:
    attempts, failed = max(attempts, 1.0), max(failed, 1.0) if failed else 0.0
    heights = (("success", attempts - failed, SPARK_HEIGHT - attempts), ("failed", failed, SPARK_HEIGHT - failed))
    return [
        Shape(f"{x:.2f}", f"{max(y, 0):.2f}", f"{width:.2f}", f"{height:.2f}", kind, "")
        for kind, height, y in heights
        if height > 0
    ]
