"""Batches: tasks that are waited for together, with or without a callback; and chains, which one task runs.

A batch has no row of its own: it is its members.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any
from uuid import UUID

from django.db import transaction

from ... import registry
from ...conf import is_sharded
from ...errors import InvalidCall, UnregisteredTask
from ...models import Task
from ...rules.backoff import MAX_DELAY
from ...rules.calls import Call
from ..database import database
from ..enqueue.enqueue import database_of, enqueue, prepare, prepare_chunk
from ..enqueue.insert import insert_with_middleware
from ..enqueue.notify import is_enqueue_heard, send_enqueued
from ..enqueue.options import EnqueueOptions
from ..new_tasks import CHUNK
from ..renewal import one_commit
from ..shards import address, shard_for
from .members import batch_key
from .steps import CALLBACK, StepKind, StepStore, insert_steps


def pages_of(calls: Iterable[Any], batch: UUID, *, of: Task | None) -> Iterator[list[Task]]:
    """Prepare the calls, a page at a time, as members of the batch of this task, whose deadline is theirs, too."""
    rest = iter(calls)
    while page := prepare_chunk(islice(rest, CHUNK)):
        for task in page:
            checked_member(task).batch = batch
            if of is not None:
                hand_down_deadline(of, task)
        yield page


def hand_down_deadline(of: Task, to: Task) -> None:
    """Give the member the deadline of the task that waits for it, unless its own is earlier."""
    for name in ("deadline_at", "deadline_in"):
        both = [end for end in (getattr(of, name, None), getattr(to, name)) if end is not None]
        setattr(to, name, min(both, default=None))


def checked_member(task: Task) -> Task:
    if task.unique_key is not None:
        raise InvalidCall(
            f"unique_key={task.unique_key!r}: a member of a batch is waited for, so it cannot be left out in "
            "favour of a task elsewhere. Leave the key out, or enqueue the task by itself."
        )
    return task


def write_members(tasks: Sequence[Task], backend: str) -> list[Task]:
    if is_sharded(backend):
        address(tasks, backend)
    if tasks and database_of(tasks) != database(backend):
        raise InvalidCall("The members of a batch live in another database than the task that waits for them.")
    return insert_with_middleware(tasks, database(backend)) if tasks else []


def start_batch(steps: StepStore, name: str, kind: StepKind, batch: UUID, calls: Iterable[Any]) -> None:
    """Write the members and the step that names their batch, in one commit and under the fence.

    Page by page, so that a million of them need no more memory than a page. The first is made before the transaction.
    """
    lease, count, heard = steps.lease, 0, list[Task]()
    waits = Task.objects.using(database(lease.backend)).filter(pk=lease.id, deadline_at__isnull=False)
    pages = pages_of(calls, batch, of=waits.only("deadline_at").first())
    first = next(pages, [])
    with one_commit(lease):
        for page in chain([first], pages):
            written = write_members(page, lease.backend)
            count += len(written)
            heard += written if is_enqueue_heard() else ()
        steps.save(name, kind, {"batch": str(batch), "count": count})
    send_enqueued(heard)


def enqueue_batch(calls: Iterable[Any], *, then: Any) -> list[Task]:
    """Enqueue the calls as one batch, and a call that is due once all of them have ended; all or nothing."""
    callback = checked_callback(then)
    if is_sharded(callback.backend):
        address([callback], shard_for(callback))
    # The batch has the id of its callback, so that a member leads to the task that will read its result.
    batch = callback.id
    members = [task for page in pages_of(calls, batch, of=callback) for task in page]
    if members:
        callback.waits_for, callback.due_in = batch_key(batch), MAX_DELAY
    using = database(callback.backend)
    with transaction.atomic(using=using):
        # The callback first: who only enqueues may add members to no batch but its own, which the guard knows by it.
        [_, *written] = write_members([callback, *members], callback.backend)
        insert_steps([(callback.id, CALLBACK, StepKind.BATCH, {"batch": str(batch), "count": len(members)})], using)
    send_enqueued(written)
    return written


def checked_callback(then: Any) -> Task:
    callback = prepare(EnqueueOptions.read(then))
    if callback.eta is not None or callback.due_in or callback.unique_key or callback.interval:
        raise InvalidCall("then= is due when its batch has ended, once: leave eta, interval and unique_key out.")
    return callback


def enqueue_chain(calls: Sequence[Call[Any]], options: Mapping[str, Any]) -> Task:
    """Enqueue one task for the whole chain, in the queue of its first call. All of its calls are checked now."""
    if not calls or not all(isinstance(each, Call) for each in calls):
        raise InvalidCall("chain(): give one call(…) or more.")
    first = checked_member(prepare(EnqueueOptions.read(calls[0])))
    place = {"queue": first.queue, "priority": first.priority, "backend": first.backend}
    specs = [spec_of(calls[0], first), *(spec_of(each, link_of(each)) for each in calls[1:])]
    from ...tasks import run_chain

    return enqueue(EnqueueOptions.with_options(run_chain.func, args=[specs], **place | dict(options)))


def link_of(each: Call[Any]) -> Task:
    """Prepare a later call of a chain. None stands for the result before, by which its lane may be named."""
    before = () if each.is_immutable else (None,)
    asked = EnqueueOptions.read(each._replace(args=(*before, *each.args)))
    return checked_member(prepare(asked if asked.lane else asked._replace(lane="")))


def spec_of(each: Call[Any], prepared: Task) -> dict[str, Any]:
    """Return the call as plain values, with the path under which its function is registered."""
    args = prepared.args[len(prepared.args) - len(each.args) :]
    spec = {"func": prepared.func_path, "args": args, "kwargs": prepared.kwargs, "options": dict(each.options)}
    return spec | {"immutable": True} if each.is_immutable else spec


def call_of(spec: Mapping[str, Any], before: tuple[Any, ...]) -> Call[Any]:
    task = registry.find(spec["func"])
    if task is None:
        raise UnregisteredTask(f"The chain calls {spec['func']}, which this worker does not know.")
    given = () if spec.get("immutable") else before
    return Call(task, (*given, *spec["args"]), spec["kwargs"], spec["options"])
