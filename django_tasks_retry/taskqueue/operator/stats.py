"""Statistics: how attempts ended, by queue and function, and by lane where that matters. Workers add; others read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import connections, transaction

from ...clock import Now, now
from ...instants import adapted
from ...models import LaneStat, TaskStat, TaskTotal
from ..database import database
from .histogram import EMPTY, RAN, WAITED

KEEP, KEEP_LANES = timedelta(days=8), timedelta(hours=1)
ROWS_PER_STATEMENT = 100
KEY = ("queue", "func_path")
ADDED = ("completed", "retried", "failed", "seconds", "wait_seconds", *RAN, *WAITED)

ADDED_TO_LANE = ("completed", "failed")

ADD = """\
INSERT INTO {table} AS stat ({columns}) VALUES {rows} ON CONFLICT ({key}) DO UPDATE SET {sums}\
"""


@dataclass(frozen=True, slots=True, order=True)
class Stat:
    """Attempts of one function in one queue, counted since the last time they were added."""

    queue: str
    func_path: str
    completed: int = 0
    retried: int = 0
    failed: int = 0
    seconds: float = 0.0
    wait_seconds: float = 0.0
    ran: tuple[int, ...] = EMPTY
    waited: tuple[int, ...] = EMPTY
    """How many fell into each bucket."""

    @property
    def values(self) -> tuple[Any, ...]:
        """In the order of ADDED."""
        counts = (self.completed, self.retried, self.failed, self.seconds, self.wait_seconds)
        return (*counts, *self.ran, *self.waited)


@dataclass(frozen=True, slots=True, order=True)
class LaneOutcomes:
    """Attempts of one lane, counted since the last time they were added."""

    lane: str
    completed: int = 0
    failed: int = 0


def add_stats(stats: Iterable[Stat], lanes: Iterable[LaneOutcomes] = (), *, backend: str = "default") -> None:
    """Add the counts to the current minute of the queue's clock and to the totals, all or none.

    Each (queue, func_path) and each lane may come once.
    """
    # In the order of their keys, so that two workers adding at once cannot deadlock.
    ordered, of_lanes, using = sorted(stats), sorted(lanes), database(backend)
    if not ordered and not of_lanes:
        return
    minute = adapted(now(using).replace(second=0, microsecond=0), connections[using])
    by_minute = [(minute, s.queue, s.func_path, *s.values) for s in ordered]
    in_all = [(s.queue, s.func_path, *s.values) for s in ordered]
    by_lane = [(minute, each.lane, each.completed, each.failed) for each in of_lanes]
    with transaction.atomic(using=using):
        add(TaskStat, ("minute", *KEY), ADDED, by_minute, using)
        add(TaskTotal, KEY, ADDED, in_all, using)
        add(LaneStat, ("minute", "lane"), ADDED_TO_LANE, by_lane, using)


def add(model: Any, key: Sequence[str], added: Sequence[str], rows: Sequence[tuple[Any, ...]], using: str) -> None:
    for start in range(0, len(rows), ROWS_PER_STATEMENT):
        part = rows[start : start + ROWS_PER_STATEMENT]
        row = f"({', '.join(['%s'] * len(part[0]))})"
        sql = ADD.format(
            table=model._meta.db_table,
            columns=", ".join((*key, *added)),
            rows=", ".join([row] * len(part)),
            key=", ".join(key),
            sums=", ".join(f"{column} = stat.{column} + excluded.{column}" for column in added),
        )
        with connections[using].cursor() as cursor:
            cursor.execute(sql, [value for row in part for value in row])


def forget_stats(*, backend: str = "default") -> int:
    """Delete statistics that nobody looks at any more. Totals stay: counters never go back."""
    using = database(backend)
    past = TaskStat.objects.using(using).filter(minute__lt=Now() - KEEP)
    of_lanes = LaneStat.objects.using(using).filter(minute__lt=Now() - KEEP_LANES)
    return past._raw_delete(past.db) + of_lanes._raw_delete(of_lanes.db)
