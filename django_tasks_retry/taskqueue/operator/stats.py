"""Statistics: how attempts ended, per minute, queue and function. Workers add; charts read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from django.db import connections

from ...clock import Now, now
from ...instants import adapted
from ...models import TaskStat
from ..database import database

KEEP = timedelta(days=8)
ROWS_PER_STATEMENT = 100

ADD = """\
INSERT INTO django_tasks_retry_taskstat AS stat (minute, queue, func_path, completed, retried, failed, seconds)
VALUES {rows}
ON CONFLICT (minute, queue, func_path) DO UPDATE SET
    completed = stat.completed + excluded.completed,
    retried = stat.retried + excluded.retried,
    failed = stat.failed + excluded.failed,
    seconds = stat.seconds + excluded.seconds\
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


def add_stats(stats: Iterable[Stat], *, backend: str = "default") -> None:
    """Add the counts to the current minute of the queue's clock. Each (queue, func_path) may come once."""
    # In the order of their keys, so that two workers adding at once cannot deadlock.
    ordered, using = sorted(stats), database(backend)
    minute = now(using).replace(second=0, microsecond=0)
    connection = connections[using]
    stamp = adapted(minute, connection)
    for start in range(0, len(ordered), ROWS_PER_STATEMENT):
        part = ordered[start : start + ROWS_PER_STATEMENT]
        values = [(stamp, s.queue, s.func_path, s.completed, s.retried, s.failed, s.seconds) for s in part]
        with connection.cursor() as cursor:
            rows = ", ".join(["(%s, %s, %s, %s, %s, %s, %s)"] * len(part))
            cursor.execute(ADD.format(rows=rows), [value for row in values for value in row])


def forget_stats(*, backend: str = "default") -> int:
    """Delete statistics that no chart shows any more."""
    past = TaskStat.objects.using(database(backend)).filter(minute__lt=Now() - KEEP)
    return past._raw_delete(past.db)
