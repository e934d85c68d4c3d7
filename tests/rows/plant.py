"""Odd rows: each is sound but for one column, and is written past the service layer."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from typing import Any
from uuid import UUID

from django.apps import apps
from django.db import DatabaseError, connections, models, transaction

from django_tasks_retry.clock import now
from django_tasks_retry.guard.sqlite import install_on_sqlite, on_types, remove_from_sqlite
from django_tasks_retry.models import (
    BacklogStat,
    FlowLimit,
    LaneStat,
    OperatorEvent,
    Queue,
    Schedule,
    Shard,
    ShardBucket,
    Signal,
    Step,
    Task,
    TaskEvent,
    TaskResult,
    TaskStat,
    TaskTotal,
    Worker,
)
from django_tasks_retry.rules.transitions import EventKind
from django_tasks_retry.taskqueue.new_tasks import new_id
from django_tasks_retry.taskqueue.workflows.steps import CALLBACK, StepKind
from tests import tasks
from tests.rows.values import OTHER, SELF, Odd
from tests.schedules.steps import plan
from tests.workflows.tasks import approval, nap, publish


@cache
def tables() -> list[type[models.Model]]:
    found = apps.get_app_config("django_tasks_retry").get_models()
    return [model for model in found if not model._meta.proxy]


@contextmanager
def unguarded(using: str) -> Iterator[None]:
    """Set the triggers aside, but for those that give SQLite's columns types, as if the rows had been there before.

    A CHECK holds for rows of any age.
    """
    connection = connections[using]
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL session_replication_role = replica")
            yield
            cursor.execute("SET LOCAL session_replication_role = origin")
            return
        remove_from_sqlite(connection)
        for _, sql in on_types():
            cursor.execute(sql)
        yield
        install_on_sqlite(connection)


class Planter:
    """Writes odd rows into one table."""

    def __init__(self, model: type[models.Model], using: str) -> None:
        self.model, self.using, self.count = model, using, 0
        self.moment = now(using)
        # A result beside it would be cleared by the next report, in a transaction of its own.
        self.template = Task.objects.enqueue(tasks.noop, eta=self.moment + timedelta(days=1000))
        self.schedule = Schedule.objects.filter(name="template").first() or plan("template")

    def plant(self, field: models.Field[Any, Any], odd: Odd) -> bool:
        """Return whether the database took the value, in a new row or in one that was there."""
        ways = [self.insert, self.update]
        if connections[self.using].vendor == "sqlite" and self.model in (Task, TaskResult, TaskEvent, Step):
            ways.remove(self.update)  # their types stand in the triggers that were set aside
        return any(self.is_taken(way, field, odd) for way in ways)

    def is_taken(self, way: Callable[..., None], field: models.Field[Any, Any], odd: Odd) -> bool:
        try:
            with transaction.atomic(using=self.using):
                way(field, odd)
        except (DatabaseError, OverflowError, ValueError):
            return False
        return True

    def insert(self, field: models.Field[Any, Any], odd: Odd) -> None:
        self.write(self.sound(), {field.column: odd})

    def update(self, field: models.Field[Any, Any], odd: Odd) -> None:
        row = self.sound()
        self.write(row, {})
        key = self.model._meta.pk
        changed = f'UPDATE {self.model._meta.db_table} SET "{field.column}" = {odd.sql} WHERE "{key.column}" = %s'
        self.execute(changed, [self.value(odd, row), self.stored(key, row)])

    def write(self, row: models.Model, odds: dict[str, Odd]) -> None:
        columns, values = [], []
        meta = row._meta
        for field in meta.concrete_fields:
            odd = odds.get(field.column)
            value = self.value(odd, row) if odd else self.stored(field, row)
            if value is not None or odd or not field.primary_key:
                columns.append((field.column, odd.sql if odd else "%s"))
                values.append(value)
        names, places = (", ".join(part) for part in zip(*((f'"{name}"', sql) for name, sql in columns), strict=True))
        self.execute(f"INSERT INTO {meta.db_table} ({names}) VALUES ({places})", values)
        if isinstance(meta.pk, models.BigAutoField) and row.pk is None:
            row.pk = self.model._default_manager.using(self.using).order_by("-pk").values_list("pk", flat=True)[0]

    def stored(self, field: models.Field[Any, Any], row: models.Model) -> Any:
        value = field.get_db_prep_save(getattr(row, field.attname), connections[self.using])
        return value.hex if isinstance(value, UUID) and connections[self.using].vendor == "sqlite" else value

    def value(self, odd: Odd, row: models.Model) -> Any:
        if odd.value not in (SELF, OTHER):
            return odd.value
        meant = row if odd.value == SELF and row.pk is not None else self.template
        return self.stored(meant._meta.pk, meant)

    def execute(self, sql: str, values: list[Any]) -> None:
        with connections[self.using].cursor() as cursor:
            cursor.execute(sql, values)

    def sound(self) -> models.Model:
        """Return a row that is not written yet, as different from the others as its keys demand."""
        self.count += 1
        return SOUND[self.model](self, self.count)


def task(planter: Planter, number: int) -> Task:
    """Make a task of each status, running ones with a live and with an expired lease."""
    row = copy.copy(planter.template)
    row.pk, row.eta = new_id(), planter.moment
    row.run_id = row.pk
    row.status, lease = PLACES[number % len(PLACES)]
    if row.status != "PENDING":
        row.attempts, row.started_at, row.last_attempt_at = 1, planter.moment, planter.moment
        row.moved_by = "odd/1:1"
    if lease:
        row.locked_by, row.lock_expires_at = "odd/1", planter.moment + timedelta(seconds=lease)
    elif row.status != "PENDING":
        row.finished_at = planter.moment
    if row.status == "FAILED":
        row.last_error, row.fingerprint = {"code": "EXCEPTION", "message": "x", "exception": "ValueError"}, "f" * 16
    return row


PLACES = (("PENDING", 0), ("RUNNING", -5), ("RUNNING", 3600), ("SUCCESS", 0), ("FAILED", 0), ("CANCELLED", 0))
"""Status, and seconds that a lease has left."""


def result(planter: Planter, number: int) -> TaskResult:
    row = task(planter, 3 + number % 3)
    planter.write(row, {})
    return TaskResult(task_id=row.pk, status=row.status, attempts=1, finished_at=planter.moment, result=None)


def event(planter: Planter, number: int) -> TaskEvent:
    told = Task.objects.enqueue(tasks.noop)
    told = Task.objects.get(pk=told.pk)
    return TaskEvent(task_id=told.pk, kind=EventKind.RETRIED, ts=told.updated_at, attempt=0, actor="odd", data={})


def step(planter: Planter, number: int) -> Step:
    """Make a step of each kind, of a callback that reads a batch and of a task that sleeps."""
    kind = list(StepKind)[number % len(StepKind)]
    called, args, name = [(publish, ["x"], CALLBACK), (nap, [], "nap")][number % 2]
    pk = Task.objects.enqueue(called, args).pk
    return Step(task_id=pk, name=name, kind=kind, attempt=0, actor="queue", ts=planter.moment)


def sent(planter: Planter, number: int) -> Signal:
    Task.objects.enqueue(approval, [f"odd-{number}"])
    return Signal(name=f"odd-{number}", payload=1, ts=planter.moment, actor="odd")


def lane(planter: Planter, number: int) -> FlowLimit:
    Task.objects.enqueue(tasks.sync, [1000 + number])
    return FlowLimit(kind="lane", name=f"tenant-{1000 + number}", running=2, created_at=planter.moment)


def schedule(planter: Planter, number: int) -> Schedule:
    row = copy.copy(planter.schedule)
    row.pk = f"odd-{number}"
    return row


def worker(planter: Planter, number: int) -> Worker:
    facts = {"host": "h", "pid": 1, "version": "1", "processes": 1, "slots": 3, "threads": 1, "listening": True}
    moments = {"started_at": planter.moment, "heartbeat_at": planter.moment}
    return Worker(id=f"odd-{number}", queues=["*"], tasks=["tests.tasks.noop"], schedules=[], **facts, **moments)


SOUND: dict[type[models.Model], Callable[[Planter, int], models.Model]] = {
    Task: task,
    TaskResult: result,
    TaskEvent: event,
    Step: step,
    Signal: sent,
    FlowLimit: lane,
    Schedule: schedule,
    Worker: worker,
    Queue: lambda planter, number: Queue(name=f"odd-{number}", paused_at=planter.moment, paused_by="odd"),
    TaskStat: lambda planter, number: TaskStat(minute=planter.moment, queue="default", func_path=f"odd.n{number}"),
    TaskTotal: lambda planter, number: TaskTotal(queue="default", func_path=f"odd.n{number}"),
    BacklogStat: lambda planter, number: BacklogStat(minute=planter.moment, queue=f"odd-{number}"),
    LaneStat: lambda planter, number: LaneStat(minute=planter.moment, lane=f"tenant-{number}"),
    Shard: lambda planter, number: Shard(number=10 + number, name=f"odd-{number}"),
    ShardBucket: lambda planter, number: ShardBucket(bucket=10 + number, owner=0),
    OperatorEvent: lambda planter, number: OperatorEvent(
        kind=("queue.paused", "proposal.made")[number % 2],
        subject="default",
        ts=planter.moment,
        actor="odd",
        data={"verb": "retry", "words": "status:failed"},
    ),
}
