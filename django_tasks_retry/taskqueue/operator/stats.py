"""Statistics: how attempts ended, per minute and in all, by queue and function. Workers add; others read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import connections, transaction

from ...clock import Now, now
from ...instants import adapted
from ...models import TaskStat, TaskTotal
from ..database import database
from .histogram import EMPTY, RAN, WAITED

KEEP = timedelta(days=8)
ROWS_PER_STATEMENT = 100
KEY = ("queue", "func_path")
ADDED = ("completed", "retried", "failed", "seconds", "wait_seconds", *RAN, *WAITED)

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


def add_stats(stats: Iterable[Stat], *, backend: str = "default") -> None:
    """Add the counts to the current minute of the queue's clock and to the totals, all or none.

    Each (queue, func_path) may come once.
    """
    # In the order of their keys, so that two workers adding at once cannot deadlock.
    ordered, using = sorted(stats), database(backend)
    if not ordered:
        return
    minute = adapted(now(using).replace(second=0, microsecond=0), connections[using])
    with transaction.atomic(using=using):
        for start in range(0, len(ordered), ROWS_PER_STATEMENT):
            part = ordered[start : start + ROWS_PER_STATEMENT]
            add(
                TaskStat,
                ("minute", "queue", "func_path"),
                [(minute, s.queue, s.func_path, *s.values) for s in part],
                using,
            )
            add(TaskTotal, ("queue", "func_path"), [(s.queue, s.func_path, *s.values) for s in part], using)


def add(model: Any, key: Sequence[str], rows: Sequence[tuple[Any, ...]], using: str) -> None:
    row = f"({', '.join(['%s'] * len(rows[0]))})"
    sql = ADD.format(
        table=model._meta.db_table,
        columns=", ".join((*key, *ADDED)),
        rows=", ".join([row] * len(rows)),
        key=", ".join(key),
        sums=", ".join(f"{column} = stat.{column} + excluded.{column}" for column in ADDED),
    )
    with connections[using].cursor() as cursor:
        cursor.execute(sql, [value for row in rows for value in row])


def forget_stats(*, backend: str = "default") -> int:
    """Delete statistics that no chart shows any more. Totals stay: counters never go back."""
    past = TaskStat.objects.using(database(backend)).filter(minute__lt=Now() - KEEP)
    return past._raw_delete(past.db)
