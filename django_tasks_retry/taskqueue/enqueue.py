"""Enqueue: a call becomes a PENDING row, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import BooleanField
from django.db.models.expressions import RawSQL
from django.utils import timezone

from .. import registry
from ..clock import now
from ..conf import check_queue, options
from ..errors import InvalidCall, InvalidPayload, as_seconds
from ..models import MAX_LENGTHS, Task
from ..querysets import TaskQuerySet
from ..rules.backoff import MAX_DELAY, BackoffLike, as_backoff, default_max_attempts, path_of, to_json
from ..rules.payload import canonical, check_size, checked_text, dump
from ..rules.policy import RetryPolicy, check_max_attempts, check_timeout, policy_of, read_timeout
from .database import columns_of, database, is_postgresql, run, statement
from .ids import new_id
from .lease import current_lease
from .wakeup import announce

CHUNK = 2000
FIRST_YEAR, LAST_YEAR = 1900, 9000
"""Years in which every time zone and both databases can reckon."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a user asks for. None means: as the task's policy says, else the backend's default."""

    func: Callable[..., Any]
    args: Iterable[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    eta: datetime | timedelta | None = None
    queue: str | None = None
    priority: int | None = None
    max_attempts: int | None = None
    backoff: BackoffLike | None = None
    timeout: float | timedelta | None = None
    interval: float | timedelta = 0
    unique_key: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    backend: str | None = None

    @classmethod
    def read(cls, item: Any) -> Request:
        """A request from what `enqueue_many` takes."""
        match item:
            case Request():
                return item
            case Mapping():
                return cls(**item)
            case (func, *rest):
                return cls(func, *rest)
            case _:
                return cls(item)


def enqueue(request: Request) -> Task:
    return enqueue_many([request])[0]


def enqueue_many(requests: Iterable[Request]) -> list[Task]:
    """Enqueue all or nothing. A task whose unique key is taken comes back as the existing one."""
    return insert([prepare(request) for request in requests])


def prepare(request: Request) -> Task:
    """Check everything that can be wrong with a call before anything is written."""
    registered = registry.resolve(request.func)
    backend = request.backend or registered.backend
    policy = policy_of(registered.func)
    args, kwargs = canonical_call(request, backend)
    parent = current_lease.get()
    task_id = new_id()
    task = Task(
        id=task_id,
        func_path=checked_path(path_of(registered.func)),
        args=args,
        kwargs=kwargs,
        queue=checked_queue(registered.queue_name if request.queue is None else request.queue, backend),
        priority=checked_priority(registered.priority if request.priority is None else request.priority),
        backend=backend,
        interval=checked_interval(request.interval),
        unique_key=checked_key(request.unique_key),
        metadata=canonical_metadata(request, backend),
        run_id=parent.run_id if parent else task_id,
        parent_id=parent.id if parent else None,
        **effective_policy(request, policy, backend),
    )
    if isinstance(request.eta, timedelta):
        task.due_in = checked_delay(request.eta)
    elif request.eta is not None:
        task.eta = checked_eta(request.eta)
    return task


def same_call(task: Task, **changes: Any) -> Task:
    """Another task with the same call, policy, queue, priority, interval and run, not yet written."""
    kept = (
        "func_path", "args", "kwargs", "queue", "priority", "backend", "max_attempts", "backoff", "timeout", "interval",
        "slot", "run_id", "unique_key", "metadata",
    )  # fmt: skip
    return Task(**{name: getattr(task, name) for name in kept} | {"id": new_id()} | changes)


def effective_policy(request: Request, policy: RetryPolicy, backend: str) -> dict[str, Any]:
    """The request's own wishes, else the task's policy, else the backend's defaults."""
    defaults = options(backend)
    backoff = policy.backoff if request.backoff is None else registry.check_backoff(as_backoff(request.backoff))
    if request.max_attempts is not None:
        check_max_attempts(request.max_attempts)
    budget = request.max_attempts or (
        policy.budget(defaults.max_attempts)
        if request.backoff is None
        else default_max_attempts(backoff, policy.max_attempts or defaults.max_attempts)
    )
    timeout = policy.timeout or defaults.timeout if request.timeout is None else read_timeout(request.timeout)
    check_timeout(timeout)
    return {"max_attempts": budget, "backoff": to_json(backoff), "timeout": timeout}


def canonical_call(request: Request, backend: str) -> tuple[list[Any], dict[str, Any]]:
    if isinstance(request.args, str | bytes | Mapping) or not isinstance(request.args, Iterable):
        raise InvalidPayload(f"args={request.args!r}: give a list or a tuple of arguments.")
    if not isinstance(request.kwargs, Mapping):
        raise InvalidPayload(f"kwargs={request.kwargs!r}: give a dictionary of arguments.")
    args = [canonical(value, f"args[{i}]") for i, value in enumerate(request.args)]
    kwargs = canonical(request.kwargs, "kwargs")
    check_size(dump([args, kwargs]), options(backend).max_args_size, "The call's arguments")
    return args, kwargs


def canonical_metadata(request: Request, backend: str) -> dict[str, Any]:
    if not isinstance(request.metadata, Mapping):
        raise InvalidPayload(f"metadata={request.metadata!r}: give a dictionary.")
    metadata: dict[str, Any] = canonical(request.metadata, "metadata")
    check_size(dump(metadata), options(backend).max_args_size, "metadata")
    return metadata


def checked_queue(queue: str, backend: str) -> str:
    if not isinstance(queue, str) or not 1 <= len(queue) <= MAX_LENGTHS["queue"]:
        raise InvalidCall(f"queue={queue!r}: give a text of 1 to {MAX_LENGTHS['queue']} characters.")
    return checked_text(check_queue(queue, backend), "queue")


def checked_path(path: str) -> str:
    if len(path) > MAX_LENGTHS["func_path"]:
        raise InvalidCall(f"The path {path[:60]}… is longer than {MAX_LENGTHS['func_path']} characters.")
    return path


def checked_priority(priority: int) -> int:
    if isinstance(priority, bool) or not isinstance(priority, int) or not -100 <= priority <= 100:
        raise InvalidCall(f"priority={priority!r}: give a whole number from -100 to 100; larger runs first.")
    return priority


def checked_eta(eta: datetime) -> datetime:
    if not isinstance(eta, datetime) or timezone.is_naive(eta) == settings.USE_TZ:
        wanted = "aware" if settings.USE_TZ else "naive"
        raise InvalidCall(
            f"eta={eta!r}: give an {wanted} datetime (USE_TZ is {settings.USE_TZ}), such as "
            "timezone.now() + timedelta(minutes=5), or a timedelta."
        )
    if not FIRST_YEAR <= eta.year <= LAST_YEAR:
        raise InvalidCall(f"eta={eta!r}: give a year from {FIRST_YEAR} to {LAST_YEAR}.")
    return eta


def checked_delay(delay: timedelta) -> float:
    if not timedelta(0) <= delay <= timedelta(seconds=MAX_DELAY):
        raise InvalidCall(f"eta={delay!r}: give a timedelta from zero to ten years, counted from now.")
    return delay.total_seconds()


def checked_interval(interval: float | timedelta) -> float:
    try:
        seconds = round(as_seconds(interval), 3)
    except (TypeError, ValueError):
        seconds = -1.0
    if (interval and not seconds) or not 0 <= seconds <= MAX_DELAY:
        raise InvalidCall(
            f"interval={interval!r}: give seconds between repetitions, from 0.001 to ten years; 0 for none."
        )
    return seconds


def checked_key(key: str | None) -> str | None:
    if key is None:
        return None
    if not isinstance(key, str) or not 1 <= len(key) <= MAX_LENGTHS["unique_key"]:
        raise InvalidCall(f"unique_key={key!r}: give a text of 1 to {MAX_LENGTHS['unique_key']} characters.")
    return checked_text(key, "unique_key")


def insert(tasks: Sequence[Task]) -> list[Task]:
    """Write prepared tasks. Returns them, or the unfinished tasks that hold their unique keys, in the same order."""
    stored: dict[UUID, Task] = {}
    for using in {database(task.backend) for task in tasks}:
        mine = sorted((task for task in tasks if database(task.backend) == using), key=key_order)
        with transaction.atomic(using=using, savepoint=False):
            for start in range(0, len(mine), CHUNK):
                stored |= insert_chunk(mine[start : start + CHUNK], using)
        announce({task.queue for task in mine}, using)
    return [stored[task.pk] for task in tasks]


def insert_chunk(tasks: Sequence[Task], using: str) -> dict[UUID, Task]:
    """By the id that was asked for. Goes round again where the holder of a key finished in the meantime."""
    stored: dict[UUID, Task] = {}
    waiting = list(tasks)
    while waiting:
        write = insert_on_postgresql if is_postgresql(using) else insert_on_sqlite
        stored |= {task.pk: task for task in write(waiting, using)}
        waiting = [task for task in waiting if task.pk not in stored]
        holders = holders_of(waiting, using)
        stored |= {task.pk: holders[key_of(task)] for task in waiting if key_of(task) in holders}
        waiting = [task for task in waiting if task.pk not in stored]
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


# Not in the statement itself: it would cost every plain task a speculative insertion.
LEAVE_TAKEN_KEYS = (
    "ON CONFLICT (queue, unique_key) WHERE status IN ('PENDING', 'RUNNING') AND unique_key IS NOT NULL DO NOTHING"
)


def insert_on_postgresql(tasks: Sequence[Task], using: str) -> list[Task]:
    sql = statement("enqueue")
    if any(task.unique_key for task in tasks):
        sql = sql.replace("RETURNING", f"{LEAVE_TAKEN_KEYS}\nRETURNING")
    rows = run(sql, columns_of([asked(task) for task in tasks], ASKED), using)
    written = {row.pop("id"): row for row in rows}
    return [as_stored(task, written[task.pk], using) for task in tasks if task.pk in written]


def asked(task: Task) -> dict[str, Any]:
    row = {name: getattr(task, name) for name in ASKED}
    for name in ("args", "kwargs", "metadata"):
        row[name] = dump(row[name])
    row["backoff"] = None if task.backoff is None else dump(task.backoff)
    row["timeout"], row["interval"] = float(task.timeout), float(task.interval)  # an array has one type
    return row


def insert_on_sqlite(tasks: Sequence[Task], using: str) -> list[Task]:
    """Runs under the write lock, so a key that is free now stays free."""
    moment, taken, fresh = now(using), set(holders_of(tasks, using)), []
    for task in tasks:
        if task.unique_key and key_of(task) in taken:
            continue
        taken.add(key_of(task))
        eta = task.eta or moment + timedelta(seconds=task.due_in)
        slot = (task.slot or eta) if task.interval else None
        fresh.append(as_stored(task, {"eta": eta, "slot": slot, "created_at": moment, "updated_at": moment}, using))
    Task.objects.using(using).bulk_create(fresh)
    return fresh


def as_stored(task: Task, values: Mapping[str, Any], using: str) -> Task:
    for name, value in values.items():
        setattr(task, name, value)
    task._state.adding, task._state.db = False, using
    return task
