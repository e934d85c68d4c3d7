"""Steps in the life of a schedule, as the tests take them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django_tasks_retry import clock, taskqueue
from django_tasks_retry.models import OperatorEvent, Schedule, Task
from tests import tasks
from tests.router import CurrentDatabase

MINUTE = timedelta(minutes=1)


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
