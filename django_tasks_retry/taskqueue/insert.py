"""Insert: prepared tasks become rows. A unique key that is taken yields the task that holds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import BooleanField
from django.db.models.base import ModelState
from django.db.models.expressions import RawSQL

from ..clock import now
from ..models import Task
from ..querysets import TaskQuerySet
from ..rules.payload import dump
from ..rules.status import Status
from .database import as_text, database, fetch, is_postgresql, run, statement
from .ids import new_id
from .wakeup import announce

CHUNK = 2000


COLUMNS = [field.attname for field in Task._meta.concrete_fields]
BLANK: dict[str, Any] = dict.fromkeys(COLUMNS) | {"status": Status.PENDING.value, "attempts": 0, "refunds": 0}


def new_task(**given: Any) -> Task:
    """A task that is yet to be written, filled in as a whole: field by field takes Django four times as long."""
    task = Task.__new__(Task)
    task.__dict__ = {"_state": ModelState(), **BLANK, **given}
    return task


def same_call(task: Task, **changes: Any) -> Task:
    """Another task with the same call, policy, queue, priority, interval and run, not yet written."""
    kept = (
        "func_path", "args", "kwargs", "queue", "priority", "backend", "max_attempts", "backoff", "timeout", "interval",
        "slot", "run_id", "unique_key", "metadata",
    )  # fmt: skip
    return new_task(**{name: getattr(task, name) for name in kept} | {"id": new_id()} | changes)


def insert(tasks: Sequence[Task]) -> list[Task]:
    """Write prepared tasks. Returns them, or the unfinished tasks that hold their unique keys, in the same order."""
    stored: dict[UUID, Task] = {}
    homes = {backend: database(backend) for backend in {task.backend for task in tasks}}
    for using in set(homes.values()):
        mine = sorted((task for task in tasks if homes[task.backend] == using), key=key_order)
        with one_transaction(mine, using):
            for start in range(0, len(mine), CHUNK):
                stored |= insert_chunk(mine[start : start + CHUNK], using)
        announce({task.queue for task in mine}, using)
    return [stored[task.id] for task in tasks]


def one_transaction(tasks: Sequence[Task], using: str) -> AbstractContextManager[None]:
    """A single statement is a transaction by itself, without two more words to the server."""
    if is_postgresql(using) and len(tasks) <= CHUNK and not any(task.unique_key for task in tasks):
        return nullcontext()
    return transaction.atomic(using=using, savepoint=False)


def insert_chunk(tasks: Sequence[Task], using: str) -> dict[UUID, Task]:
    """By the id that was asked for. Goes round again where the holder of a key finished in the meantime."""
    stored: dict[UUID, Task] = {}
    waiting = list(tasks)
    while waiting:
        write = insert_on_postgresql if is_postgresql(using) else insert_on_sqlite
        stored |= {task.id: task for task in write(waiting, using)}
        waiting = [task for task in waiting if task.id not in stored]
        holders = holders_of(waiting, using)
        stored |= {task.id: holders[key_of(task)] for task in waiting if key_of(task) in holders}
        waiting = [task for task in waiting if task.id not in stored]
    return stored


def key_of(task: Task) -> tuple[str, str | None]:
    return task.queue, task.unique_key


def key_order(task: Task) -> tuple[str, str]:
    """One order for everybody, so that two that enqueue the same keys cannot deadlock."""
    return task.queue if task.unique_key else "", task.unique_key or ""


def holders_of(tasks: Sequence[Task], using: str) -> dict[tuple[str, str | None], Task]:
    """The unfinished tasks that hold the unique keys of these."""
    keyed = [task for task in tasks if task.unique_key]
    if not keyed:
        return {}
    find = keyed_on_postgresql if is_postgresql(using) else keyed_on_sqlite
    holders = {key_of(task): task for task in find(keyed, Task.objects.using(using).unfinished())}
    for holder in holders.values():
        holder.already_enqueued = True
    return holders


def keyed_on_postgresql(tasks: Sequence[Task], unfinished: TaskQuerySet) -> TaskQuerySet:
    keys = {"queue": [task.queue for task in tasks], "unique_key": [task.unique_key for task in tasks]}
    return unfinished.filter(pk__in=[row["id"] for row in run(statement("holders"), keys, unfinished.db)])


# SQLite takes a partial index only where its condition stands in the question word for word, not as parameters.
AS_IN_THE_INDEX = RawSQL("status IN ('PENDING', 'RUNNING')", [], BooleanField())


def keyed_on_sqlite(tasks: Sequence[Task], unfinished: TaskQuerySet) -> TaskQuerySet:
    queues, keys = {task.queue for task in tasks}, {task.unique_key for task in tasks}
    return unfinished.filter(AS_IN_THE_INDEX, queue__in=queues, unique_key__in=keys)


ASKED = (
    "id", "func_path", "args", "kwargs", "queue", "priority", "backend", "eta", "due_in", "max_attempts", "backoff",
    "timeout", "interval", "slot", "run_id", "retry_of_id", "parent_id", "unique_key", "metadata",
)  # fmt: skip
RETURNED = ("id", "eta", "slot", "created_at", "updated_at")
BLANK_CALL = dict.fromkeys(ASKED) | {"due_in": 0.0}
JSON_COLUMNS = ("args", "kwargs", "backoff", "metadata")


# Not in the statement itself: it would cost every plain task a speculative insertion.
LEAVE_TAKEN_KEYS = (
    "ON CONFLICT (queue, unique_key) WHERE status IN ('PENDING', 'RUNNING') AND unique_key IS NOT NULL DO NOTHING"
)


def insert_on_postgresql(tasks: Sequence[Task], using: str) -> list[Task]:
    if len(tasks) == 1:
        sql, parameters = statement("enqueue_one"), parameters_of(tasks[0])
    else:
        sql, parameters = statement("enqueue"), {"asked": as_text([asked_of(task) for task in tasks])}
    if any(task.unique_key for task in tasks):
        sql = sql.replace("RETURNING", f"{LEAVE_TAKEN_KEYS}\nRETURNING")
    elif not any(task.due_in for task in tasks):
        # All will be there, due at once or as they say, so one answer tells of all.
        [row] = fetch(sql if len(tasks) == 1 else f"{sql} LIMIT 1", parameters, using)
        return [as_dated(task, row[RETURNED.index("created_at")], using) for task in tasks]
    written = {row[0]: dict(zip(RETURNED, row, strict=True)) for row in fetch(sql, parameters, using)}
    return [as_stored(task, written[task.id], using) for task in tasks if task.id in written]


def asked_of(task: Task) -> dict[str, Any]:
    """What is known of a task before it is written. What it leaves out is NULL."""
    values = vars(task)
    return {name: value for name in ASKED if (value := values.get(name)) is not None}


def parameters_of(task: Task) -> dict[str, Any]:
    asked = asked_of(task)
    return BLANK_CALL | asked | {name: dump(asked[name]) for name in JSON_COLUMNS if name in asked}


def insert_on_sqlite(tasks: Sequence[Task], using: str) -> list[Task]:
    """Runs under the write lock, so a key that is free now stays free."""
    moment, taken, fresh = now(using), set(holders_of(tasks, using)), []
    for task in tasks:
        if task.unique_key and key_of(task) in taken:
            continue
        taken.add(key_of(task))
        fresh.append(as_dated(task, moment, using))
    Task.objects.using(using).bulk_create(fresh)
    return fresh


def as_dated(task: Task, moment: datetime, using: str) -> Task:
    eta = task.eta or moment + timedelta(seconds=task.due_in)
    slot = (task.slot or eta) if task.interval else None
    return as_stored(task, {"eta": eta, "slot": slot, "created_at": moment, "updated_at": moment}, using)


def as_stored(task: Task, values: Mapping[str, Any], using: str) -> Task:
    for name, value in values.items():
        setattr(task, name, value)
    task._state.adding, task._state.db = False, using
    return task
