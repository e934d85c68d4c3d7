"""One function's figures: how often it runs and fails, how long it waits and runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import ceil
from uuid import UUID

from django.db.models import Sum

from ..clock import now
from ..models import Task, TaskStat
from ..taskqueue.operator import summaries
from ..taskqueue.operator.histogram import BOUNDS, RAN, WAITED

SPAN = timedelta(hours=24)
LOOK_BACK = 25_000
SAMPLE = 1000
SHARES = (0.5, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class Counts:
    """Attempts of one function within a day, from the workers' statistics."""

    func_path: str
    completed: int
    retried: int
    failed: int
    seconds: float

    @property
    def attempts(self) -> int:
        return self.completed + self.retried + self.failed

    @property
    def failures(self) -> int:
        return self.retried + self.failed

    @property
    def mean_seconds(self) -> float | None:
        return self.seconds / self.attempts if self.attempts else None


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds at p50, p95 and p99: exact, of the newest tasks; or of all attempts of a day, estimated from buckets."""

    sampled: int
    wait: tuple[float, ...]
    run: tuple[float, ...]
    is_estimate: bool = False


def read_counts(using: str, func_path: str = "", span: timedelta = SPAN) -> list[Counts]:
    """Of one function, or of all, the busiest first."""
    stats = TaskStat.objects.using(using).filter(minute__gte=now(using) - span)
    if func_path:
        stats = stats.filter(func_path=func_path)
    sums = {name: Sum(name) for name in ("completed", "retried", "failed", "seconds")}
    rows = stats.order_by("func_path").values_list("func_path").annotate(**sums)
    return sorted((Counts(*row) for row in rows), key=lambda each: -each.attempts)


def read_times(using: str, func_path: str) -> Times:
    """Exact where the newest tasks are all that there are of a day; else from the workers' histograms."""
    newest, day = newest_times(using, func_path), times_of_a_day(using, func_path)
    return day if day.sampled > newest.sampled else newest


def times_of_a_day(using: str, func_path: str) -> Times:
    stats = TaskStat.objects.using(using).filter(minute__gte=now(using) - SPAN, func_path=func_path)
    sums = stats.aggregate(**{name: Sum(name, default=0) for name in (*RAN, *WAITED)})
    ran, waited = [sums[name] for name in RAN], [sums[name] for name in WAITED]
    if not (sum(ran) and sum(waited)):
        return Times(0, (), (), is_estimate=True)
    return Times(sum(waited), quantiles(waited), quantiles(ran), is_estimate=True)


def quantiles(counts: Sequence[int]) -> tuple[float, ...]:
    return tuple(quantile(counts, share) for share in SHARES)


def quantile(counts: Sequence[int], share: float) -> float:
    """As if the attempts of a bucket were spread evenly in it. Beyond the last bound nothing more is known."""
    rank, below = share * sum(counts), 0
    for n, count in enumerate(counts[: len(BOUNDS)]):
        if below + count >= rank and count:
            start = BOUNDS[n - 1] if n else 0.0
            return start + (BOUNDS[n] - start) * (rank - below) / count
        below += count
    return BOUNDS[-1]


def newest_times(using: str, func_path: str) -> Times:
    """From the newest finished tasks of the function, among the newest of all: no index is kept for them."""
    floor = summaries.newest_before(LOOK_BACK, using) or UUID(int=0)
    tasks = Task.objects.using(using).finished().filter(pk__gte=floor, func_path=func_path)
    ended = tasks.filter(last_attempt_at__isnull=False, finished_at__isnull=False).order_by("-pk")
    rows = list(ended.values_list("eta", "last_attempt_at", "finished_at")[:SAMPLE])
    waits = [max(0.0, (began - due).total_seconds()) for due, began, _end in rows]
    runs = [max(0.0, (end - began).total_seconds()) for _due, began, end in rows]
    return Times(len(rows), percentiles(waits), percentiles(runs))


def percentiles(seconds: Sequence[float]) -> tuple[float, ...]:
    """The nearest rank; nothing of nothing."""
    ordered = sorted(seconds)
    return tuple(ordered[max(0, ceil(share * len(ordered)) - 1)] for share in SHARES) if ordered else ()
