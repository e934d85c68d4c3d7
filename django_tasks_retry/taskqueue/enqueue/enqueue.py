"""Enqueue: a call becomes a PENDING row, in the caller's transaction."""

import gc
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, islice
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction

from ... import registry
from ...conf import check_backend, forgotten, has_shards, is_sharded, shard_number
from ...errors import InvalidCall
from ...middleware import hooks
from ...models import Task
from ...rules.calls import Call
from ...rules.lanes.limits import LaneDeclaration, declaration_of
from ...rules.lanes.templates import checked_lane, fill_lane
from ...rules.names import in_shard
from ...rules.policy import policy_of
from ..database import database
from ..lease import current_lease
from ..new_tasks import BLANK, CHUNK, filled_in, new_id, new_task, rising_ids
from ..shards import address, insert_placed, shard_for
from ..typed import TypedCall, typed_call
from . import checks
from .backlog import check_backlog, is_capped
from .deadline import enqueue_deadline
from .insert import insert_each, insert_with_middleware
from .notify import send_enqueued
from .options import FIRST_OPTIONAL, NONE_OPTIONAL, NOTHING, OPTIONAL, EnqueueOptions, optional_options
from .unique import set_conflict

PIPELINED = 1000
"""From so many calls on, a part of a list is checked while the server writes the one before: in 0.8 of the time."""


def enqueue(options: EnqueueOptions) -> Task:
    """Store one call and return it; or raise, and store nothing."""
    return enqueue_many([options])[0]


def enqueue_many(calls: Iterable[Any]) -> list[Task]:
    """Enqueue all or nothing of what `EnqueueOptions.read` reads. A unique key that is taken yields its holder.

    A long list is written in chunks before the last is checked. Other iterables may query the database themselves.
    """
    if isinstance(calls, list | tuple) and len(calls) >= PIPELINED and not has_shards():
        size = min(CHUNK, (len(calls) + 1) // 2)
        starts = range(0, len(calls), size)
        stored = insert_pipelined(prepare_chunk(calls[start : start + size]) for start in starts)
    else:
        tasks = prepare_all(calls)
        insert = insert_in_shards if has_shards() else insert_in_time
        stored = insert(tasks) if tasks else []
    send_enqueued(stored)
    return stored


def insert_in_shards(tasks: Sequence[Task]) -> list[Task]:
    """Insert where each task belongs. A backend of one shard, as `default@q1`, leaves no choice."""
    if any(is_sharded(task.backend) and not shard_number(task.backend) for task in tasks):
        return insert_placed(tasks, insert_in_time)
    return insert_in_time(tasks)


def insert_in_time(tasks: Sequence[Task]) -> list[Task]:
    using = database_of(tasks)
    with enqueue_deadline(tasks, using):
        return insert_checked(tasks, using)


def enqueue_stream(calls: Iterable[Any]) -> int:
    """Enqueue all or nothing, and keep none of them in memory. Returns the number of calls."""
    rest, count = iter(calls), 0
    chunks = iter(lambda: prepare_chunk(islice(rest, CHUNK)), [])
    if not (first := next(chunks, [])):
        return 0
    head, chunks = first[:1], chain(iter([first]), chunks)
    shard = shard_for(head[0]) if is_sharded(head[0].backend) else None
    del first  # so that it is freed when it is sent; chain() would keep the list, but not the iterator, to its end
    if shard:
        address(head, shard)
    using = database_of(head)
    with enqueue_deadline(head, using) as deadline, transaction.atomic(using=using):
        for tasks in deadline.each(chunks):
            if shard:
                address(tasks, shard)
            database_of([*head, *tasks])
            send_enqueued(insert_checked(tasks, using))
            count += len(tasks)
    return count


def insert_checked(tasks: Sequence[Task], using: str) -> list[Task]:
    check_backlog(tasks, using)
    return insert_with_middleware(tasks, using)


def insert_pipelined(chunks: Iterator[list[Task]]) -> list[Task]:
    """Insert all or nothing, in the order of the calls. A chunk is checked while the server writes the last one."""
    first = next(chunks)
    using = database_of(first)
    left: list[Task] = []
    with enqueue_deadline(first, using) as deadline, transaction.atomic(using=using):
        stored = insert_each(pipelinable(deadline.each(chain([first], chunks)), left), using)
        deadline.renew()
        return stored + insert_checked(left, using) if left else stored


def pipelinable(chunks: Iterable[list[Task]], left: list[Task]) -> Iterator[list[Task]]:
    """Yield chunks until one is not plain. That one and all that follow are added to `left`."""
    first: list[Task] = []
    for chunk in chunks:
        first = first or chunk[:1]
        database_of([*first, *chunk])
        if left or not is_plain(chunk):
            left += chunk
        else:
            yield chunk


def is_plain(tasks: Sequence[Task]) -> bool:
    """Return whether no middleware, no cap and no unique key is involved."""
    if any(task.unique_key for task in tasks) or is_capped(tasks):
        return False
    return not any(hooks(backend, "enqueue") for backend in {task.backend for task in tasks})


def database_of(tasks: Sequence[Task]) -> str:
    """The one database of these tasks. No transaction spans two, so tasks of several are refused."""
    databases = {backend: database(backend) for backend in {task.backend for task in tasks}}
    if len(set(databases.values())) > 1:
        places = ", ".join(f"{backend!r} in the database {using!r}" for backend, using in sorted(databases.items()))
        raise InvalidCall(
            f"enqueue_many() stores all tasks or none, and these live in several databases: {places}. "
            "Call enqueue_many() once for each database."
        )
    return next(iter(databases.values()))


class SharedChecks(NamedTuple):
    """Checks of the options that calls of one function share: made once for all of them."""

    first: EnqueueOptions  # kept, so that no other object takes the identity of one of its options
    callee: checks.Callee
    typed: TypedCall | None
    run_after: Any
    backend: str
    shard: int
    columns: dict[str, Any]  # all columns of a new task
    lane: LaneDeclaration | None
    task_options: dict[str, Any]  # optional ones, of `@task(…)` and `using(…)`


SHARED = ("func", "queue", "priority", "max_attempts", "timeout", "interval", "backend")
shared_options = attrgetter(*SHARED)


@forgotten
@lru_cache(maxsize=200, typed=True)
def known_checks(_registered: int, *shared: Any) -> SharedChecks:
    """Check these options once for as long as settings and registry stay as they are: a tenth of an enqueue."""
    return check_shared(EnqueueOptions(**dict(zip(SHARED, shared, strict=True))))


def check_shared(options: EnqueueOptions) -> SharedChecks:
    registered = registry.resolve(options.func)
    backend = check_backend(options.backend or registered.backend)
    callee = checks.known_callee(registered.func, takes_context=registered.takes_context)
    columns = {
        "func_path": callee.path,
        "queue": checks.checked_queue(registered.queue_name if options.queue is None else options.queue, backend),
        "priority": checks.checked_priority(registered.priority if options.priority is None else options.priority),
        "backend": backend,
        "interval": checks.checked_interval(options.interval),
        **checks.effective_policy(options, policy_of(registered.func), backend),
    }
    typed = typed_call(registered.func, takes_context=registered.takes_context)
    return SharedChecks(
        options, callee, typed, registered.run_after, backend, shard_number(backend), BLANK | columns,
        declaration_of(registered.func), task_options(registered),
    )  # fmt: skip


def shared_checks(options: EnqueueOptions, earlier: dict[tuple[int, ...], SharedChecks]) -> SharedChecks:
    """Reuse the checks of an earlier call with the very same options. A backoff may be a list, which may change."""
    if options.backoff is not None:
        return check_shared(options)
    values = shared_options(options)
    key = tuple(map(id, values))
    shared = earlier.get(key)
    if shared is None:
        found = known_checks(registry.size(), *values) if is_hashable(values) else check_shared(options)
        shared = earlier[key] = found._replace(first=options)
    return shared


def is_hashable(values: Any) -> bool:
    try:
        hash(values)
    except TypeError:
        return False
    return True


def prepare_all(calls: Iterable[Any]) -> list[Task]:
    earlier: dict[tuple[int, ...], SharedChecks] = {}
    read = map(EnqueueOptions.read, calls)
    return [prepare(options, earlier, task_id) for options, task_id in zip(read, rising_ids(), strict=False)]


def prepare_chunk(calls: Iterable[Any]) -> list[Task]:
    """Prepare many with the garbage collector off: it would scan the new tasks again and again.

    Not for longer than a chunk: an iterable may be code of the project, whose garbage must be collected.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return prepare_all(calls)
    finally:
        if was_enabled:
            gc.enable()


def prepare(
    options: EnqueueOptions, earlier: dict[tuple[int, ...], SharedChecks] | None = None, task_id: UUID | None = None
) -> Task:
    """Check everything that can be wrong with a call before anything is written."""
    shared = check_shared(options) if earlier is None else shared_checks(options, earlier)
    args, kwargs = checks.canonical_call(options, shared.backend, shared.callee, shared.typed)
    shared.callee.check(args, kwargs)
    parent = current_lease.get()
    task_id = task_id or new_id()
    if shared.shard:
        task_id = in_shard(task_id, shared.shard)
    task = filled_in(
        shared.columns,
        id=task_id,
        args=args,
        kwargs=kwargs,
        unique_key=None if options.unique_key is None else checks.checked_key(options.unique_key),
        lane=lane_of(options.lane, shared, args, kwargs),
        metadata={} if options.metadata is NOTHING else checks.canonical_metadata(options.metadata, shared.backend),
        run_id=parent.run_id if parent else task_id,
        parent_id=parent.id if parent else None,
    )
    eta: Any = shared.run_after if options.eta is None else options.eta
    if eta is not None:
        checks.set_eta(task, eta)
    if shared.task_options or options[FIRST_OPTIONAL:] != NONE_OPTIONAL:
        apply_optional(task, shared.task_options | optional_options(options))
    return task


def lane_of(given: str | None, shared: SharedChecks, args: list[Any], kwargs: dict[str, Any]) -> str:
    """The lane of this call: as given ("" for none), else as its function's `@lane`."""
    if given == "" or (given is None and shared.lane is None):
        return ""
    if given is None and shared.lane is not None:
        given = fill_lane(shared.lane.template, shared.callee.arguments(args, kwargs))
    return checked_lane(given or "")


def task_options(registered: Any) -> dict[str, Any]:
    return {name: value for name in (*OPTIONAL, "unique_key") if (value := getattr(registered, name, None)) is not None}


def apply_optional(task: Task, options: dict[str, Any]) -> None:
    """Apply the options that few calls have, after all others."""
    task.unique_key = task.unique_key or checks.checked_key(options.pop("unique_key", None))
    for name in ("expires", "deadline"):
        if (end := options.pop(name, None)) is not None:
            checks.set_end(task, name, end)
    if (then := options.pop("on_failure", None)) is not None:
        task.on_failure = call_on_failure(then, task)
    task.shard_key = checks.checked_key(options.pop("shard_key", None))
    if options:
        set_conflict(task, **options)


def call_on_failure(then: Any, of: Task) -> dict[str, Any]:
    """Check the call that is enqueued if this task fails. Return its columns, without the task's id as its argument."""
    asked = EnqueueOptions.read(then)
    has_id = not (isinstance(then, Call) and then.is_immutable)
    wanted = prepare(asked._replace(args=[str(of.id), *asked.args]) if has_id else asked)
    if any((wanted.eta, wanted.expires_at, wanted.deadline_at, wanted.unique_key, wanted.interval)):
        raise InvalidCall(
            "on_failure= is enqueued once, when the task has failed: leave unique_key and interval out, and give times "
            "as timedelta."
        )
    if wanted.backend != of.backend:
        raise InvalidCall(f"on_failure= belongs to the backend {wanted.backend!r}, and its task to {of.backend!r}.")
    columns = {name: value for name in FOLLOW_UP if (value := getattr(wanted, name)) not in (None, "", 0, [], {})}
    return columns | {"args": wanted.args[has_id:], "has_id": has_id}


FOLLOW_UP = (
    "func_path", "args", "kwargs", "max_attempts", "backoff", "timeout", "metadata", "lane", "queue", "priority",
    "due_in", "expires_in", "deadline_in", "on_failure",
)  # fmt: skip
"""The columns that are stored of a call for the failure."""


def follow_up(failed: Task) -> Task:
    """Return the task to enqueue because this one has failed. Raises whatever an unchecked row provokes."""
    stored: Any = failed.on_failure
    columns = {name: stored[name] for name in FOLLOW_UP if name in stored}
    args = [str(failed.id)] * bool(stored["has_id"]) + columns["args"]
    origin = {"id": new_id(failed.backend), "run_id": failed.run_id, "parent_id": failed.id, "backend": failed.backend}
    return new_task(**ABSENT | columns | origin | {"args": args})


ABSENT: dict[str, Any] = {"kwargs": {}, "metadata": {}, "lane": "", "priority": 0, "interval": 0}
