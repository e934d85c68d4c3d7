"""Attempts over time, read from the workers' statistics; never from tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Sum
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from ...display.scope import Scope
from ...models import TaskStat


@dataclass(frozen=True, slots=True)
class Scale:
    label: str | Promise
    step: timedelta
    count: int
    title: str | Promise


SCALES = {
    "1h": Scale(_("Last hour"), timedelta(minutes=1), 60, _("Attempts per minute")),
    "24h": Scale(_("Last 24 hours"), timedelta(minutes=15), 96, _("Attempts per 15 minutes")),
}


@dataclass(slots=True)
class Bucket:
    start: datetime
    completed: int = 0
    retried: int = 0
    failed: int = 0

    @property
    def attempts(self) -> int:
        return self.completed + self.retried + self.failed


@dataclass(slots=True)
class Activity:
    """All attempts, and those of each queue, in buckets from the oldest to the newest."""

    scale: Scale
    starts: list[datetime]
    total: list[Bucket]
    queues: dict[str, list[Bucket]] = field(default_factory=dict)

    def for_queue(self, queue: str) -> list[Bucket]:
        return self.queues.get(queue) or [Bucket(start) for start in self.starts]


def read_activity(scope: Scope, scale: Scale, func_path: str = "") -> Activity:
    """Of all functions, or of one."""
    first = round_down(scope.now, scale.step) - scale.step * (scale.count - 1)
    starts = [first + scale.step * n for n in range(scale.count)]
    stats = TaskStat.objects.using(scope.using).filter(minute__gte=first)
    if func_path:
        stats = stats.filter(func_path=func_path)
    rows = stats.values("minute", "queue").annotate(
        completed=Sum("completed"), retried=Sum("retried"), failed=Sum("failed")
    )
    return fill_buckets(rows, starts, scale)


def fill_buckets(rows: Iterable[Mapping[str, Any]], starts: list[datetime], scale: Scale) -> Activity:
    total = [Bucket(start) for start in starts]
    queues: dict[str, list[Bucket]] = defaultdict(lambda: [Bucket(start) for start in starts])
    for row in rows:
        index = int((row["minute"] - starts[0]) / scale.step)
        if 0 <= index < len(starts):
            for bucket in (total[index], queues[row["queue"]][index]):
                bucket.completed += row["completed"]
                bucket.retried += row["retried"]
                bucket.failed += row["failed"]
    return Activity(scale, starts, total, dict(queues))


def round_down(moment: datetime, step: timedelta) -> datetime:
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    return day + (moment - day) // step * step
