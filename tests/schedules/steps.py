"""Steps in the life of a schedule, as the tests take them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import connections

from django_tasks_retry import clock, taskqueue
from django_tasks_retry.models import OperatorEvent, Schedule, Task
from tests import tasks
from tests.router import CurrentDatabase

MINUTE = timedelta(minutes=1)
MANY_DIGITS = f"[{'9' * 5000}]"
"""No supported Python reads it, unlike deep nesting, whose bound differs between them."""
POISONS = {
    "number beyond floats": {"args": "[1e5000]"},
    "5,000 digits": {"args": MANY_DIGITS},
    "nested too deep": {"kwargs": '{"a": ' + "[" * 6000 + "]" * 6000 + "}"},
    "anchor at the end of time": {"anchor": "9099-12-31 23:59:59+00:00"},
}


def plan(name: str = "every minute", task: Any = tasks.noop, **asked: Any) -> Schedule:
    return Schedule.objects.create(name=name, task=task, **(asked or {"every": MINUTE}))


def row(name: str = "every minute") -> Schedule:
    return Schedule.objects.get(pk=name)


def runs(name: str = "every minute") -> list[Task]:
    return list(Task.objects.filter(schedule=name).order_by("id"))


def slots(name: str = "every minute") -> list[datetime | None]:
    return [task.slot for task in runs(name)]


def decisions(name: str = "every minute") -> list[str]:
    return list(OperatorEvent.objects.filter(subject=name).order_by("id").values_list("kind", flat=True))


def last_decision(name: str = "every minute") -> OperatorEvent:
    return OperatorEvent.objects.filter(subject=name).latest("id")


def tick(**options: Any) -> taskqueue.Ticked:
    return taskqueue.tick(actor="worker", **options)


def now() -> datetime:
    return clock.now(CurrentDatabase.current)


def overwrite(name: str, using: str, **columns: str) -> None:
    """Write these texts into a row, as a stray UPDATE does."""
    with connections[using].cursor() as cursor:
        if using != "postgresql":  # which takes JSON of any depth
            cursor.execute("PRAGMA ignore_check_constraints = 1")
        for column, text in columns.items():
            cursor.execute(f"UPDATE {Schedule._meta.db_table} SET {column} = %s WHERE name = %s", [text, name])
        if using != "postgresql":
            cursor.execute("PRAGMA ignore_check_constraints = 0")
