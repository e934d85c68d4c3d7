"""Placement: the shard of each call. A promise stays exact, because one database holds all tasks that it is about.

In this order: the caller's transaction; a limited queue, function or lane, a unique key, a schedule; the task that
enqueues it; `shard_key` or its lane; else any shard that answers.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from uuid import UUID

from django.db import DatabaseError, connections, transaction

from ...conf import is_sharded, named_in_settings, shard_backends, shard_number
from ...errors import EnqueueTimeout, InvalidCall, PartlyEnqueued, ShardAway, TaskQueueError
from ...models import Task
from ...rules.lanes.limits import NO_LIMIT
from ...rules.names import in_shard, shard_of
from ..database import database
from ..engines import engine_for
from ..lanes import labels_of, limit_of
from ..lease import current_lease
from ..new_tasks import new_task
from .answers import check_answers, doubt, is_up
from .owners import UNKNOWN, Owners, hashed, known_owners

TRIES = 5
Insert = Callable[[Sequence[Task]], list[Task]]


class NotHere(InvalidCall):
    """A call belongs to another shard than the one that it was to be written to."""

    def __init__(self, shard: str, rows: Sequence[tuple[int, int, int]], keys: Iterable[str]) -> None:
        self.shard, self.rows = shard, rows
        known = dict(enumerate(map(database, shard_backends(shard))))
        owners = {repr(known.get(owner, f"number {owner}")) for _, _, owner in rows}
        super().__init__(
            f"{', '.join(sorted(keys))} belongs to the shard {', '.join(sorted(owners))}, and this "
            f"call is bound to {database(shard)!r} by its transaction, its batch, its stream, the task that it retries "
            "or whose failure it follows. Enqueue it by itself, outside of a transaction or by transaction.on_commit()."
        )


def shard_of_id(task_id: UUID, backend: str) -> str:
    """Return the backend of the shard in which this task lives. Numbers that SHARDS does not have mean the first."""
    shards = shard_backends(backend)
    number = shard_of(task_id)
    return shards[number] if len(shards) > number > 0 else backend if len(shards) == 1 else shards[0]


def belonging(task: Task) -> str | None:
    """Return the key of what must live in one database with others; None for a call that may go anywhere."""
    for label in labels_of(task):
        if limit_of(label, task.backend) != NO_LIMIT:
            return label
    if task.unique_key:
        return f"{task.queue}:{task.unique_key}"
    if task.schedule_id and not task.retry_of_id:
        return task.schedule_id
    return None


def bucket_of(task: Task) -> int | None:
    key = belonging(task)
    return None if key is None else hashed(key)


def belonging_all(task: Task) -> Iterator[str]:
    """Yield the keys of a task, and of the call that is enqueued in its place if it fails."""
    if (key := belonging(task)) is not None:
        yield key
    if task.on_failure is not None:
        then = {name: task.on_failure.get(name) or "" for name in ("queue", "func_path", "lane")}
        yield from belonging_all(new_task(**then, on_failure=task.on_failure.get("on_failure"), backend=task.backend))


def address(tasks: Iterable[Task], shard: str) -> None:
    """Give tasks that are not written yet the name of the shard, and ids that lead there."""
    number = shard_number(shard)
    for task in tasks:
        if named_in_settings(task.backend) == named_in_settings(shard):
            own_run = task.run_id == task.id
            task.backend, task.id = shard, in_shard(task.id, number)
            task.run_id = task.id if own_run else task.run_id


def open_transaction(shards: Sequence[str]) -> str | None:
    """Return the shard in whose database the caller has begun a transaction."""
    return next((shard for shard in shards if connections[database(shard)].in_atomic_block), None)


def shard_for(task: Task) -> str:
    """Return the shard of one call; of a stream or a batch all calls go to that of the first."""
    [[shard, _]] = parts_of([task])
    return shard


def parts_of(tasks: Sequence[Task]) -> list[tuple[str, list[Task]]]:
    """Tasks by shard, those of one transaction as a whole."""
    shards = shard_backends(tasks[0].backend)
    if (inside := open_transaction(shards)) is not None:
        return [(inside, list(tasks))]
    owners = known_owners(shards[0])
    parts: dict[str, list[Task]] = {}
    free: list[Task] = []
    for task in tasks:
        bucket = bucket_of(task)
        if bucket is None and task.shard_key:
            bucket = hashed(task.shard_key)
        (free if bucket is None else parts.setdefault(owners.of(bucket), [])).append(task)
    for shard in parts:
        check_answers(shard)
    if free:
        parts.setdefault(next(iter(parts), None) or any_shard(free[0], owners), []).extend(free)
    return list(parts.items())


def any_shard(task: Task, owners: Owners) -> str:
    """Return a shard for a call without a key: where its parent runs or its lane is; else any that answers."""
    parent = current_lease.get()
    wished = [parent.backend] if parent else []
    if task.lane:
        wished.append(owners.of(hashed(task.lane)))
    rest = random.sample(owners.shards, len(owners.shards))
    for shard in (*wished, *rest):
        if shard in owners.shards and owners.shards.index(shard) not in owners.draining and is_up(shard):
            return shard
    for shard in rest:
        if is_up(shard):
            return shard
    raise ShardAway(*map(database, owners.shards))


def insert_placed(tasks: Sequence[Task], insert: Insert) -> list[Task]:
    """Insert each task in its shard. All or none, if one shard holds them all."""
    if len({task.backend for task in tasks}) > 1:
        raise InvalidCall("enqueue_many() takes calls of one sharded backend at a time: call it once for each backend.")
    stored: dict[int, Task] = {}
    left = list(tasks)
    for attempt in range(TRIES):
        try:
            for shard, part in parts_of(left):
                address(part, shard)
                written = insert_in(shard, part, insert)
                stored |= dict(zip(map(id, part), written, strict=True))
            break
        except (NotHere, ShardAway, EnqueueTimeout) as error:
            left = [task for task in tasks if id(task) not in stored]
            if attempt + 1 < TRIES and may_go_elsewhere(error, left):
                continue
            raise_partly(stored, error)
        except (TaskQueueError, DatabaseError) as error:
            raise_partly(stored, error)
    return [stored[id(task)] for task in tasks]


def insert_in(shard: str, part: Sequence[Task], insert: Insert) -> list[Task]:
    try:
        return insert(part)
    except (EnqueueTimeout, DatabaseError):
        doubt(shard)
        connection = connections[database(shard)]
        if connection.connection is not None and connection.connection.closed:
            connection.close()  # so that the next call connects anew, when the shard is back
        raise


def may_go_elsewhere(error: TaskQueueError, tasks: Sequence[Task]) -> bool:
    """Return whether to place these tasks anew: certainly nothing was stored, and no transaction binds them."""
    shards = shard_backends(tasks[0].backend)
    if open_transaction(shards) is not None:
        return False
    if isinstance(error, NotHere):
        relearn(error)
        return True
    return isinstance(error, EnqueueTimeout) and not error.may_exist


def relearn(error: NotHere) -> None:
    """Believe the shard that refused; or tell it, if it has missed that the buckets are its own now."""
    owners = known_owners(error.shard)
    told = [bucket for bucket, version, owner in error.rows if (version, owner) < owners.rows[bucket]]
    owners.learn(error.rows)
    if told:
        owners.push(error.shard, told)


def raise_partly(stored: dict[int, Task], error: Exception) -> None:
    if stored:
        raise PartlyEnqueued(list(stored.values()), error) from error
    raise error


@contextmanager
def held(keys: dict[int, str], backend: str, using: str) -> Any:
    # A refusal leaves the caller's transaction as it was.
    is_callers = connections[using].in_atomic_block
    with nullcontext() if is_callers else transaction.atomic(using=using):
        found = engine_for(using).fetch("hold_buckets", {"buckets": sorted(keys)})
        rows = {bucket: (bucket, version, owner) for bucket, version, owner in found}
        number = shard_number(backend)
        wrong = [row for each in keys if (row := rows.get(each, (each, *UNKNOWN)))[1:] == UNKNOWN or row[2] != number]
        if wrong:
            raise NotHere(backend, wrong, [keys[bucket] for bucket, _, _ in wrong])
        yield


def hold(tasks: Sequence[Task], using: str) -> AbstractContextManager[Any]:
    """Keep the buckets of these tasks from moving until they are written. NotHere if some belong elsewhere."""
    if not tasks or not is_sharded(tasks[0].backend):
        return nullcontext()
    keys = {hashed(key): key for task in tasks for key in belonging_all(task)}
    return held(keys, tasks[0].backend, using) if keys else nullcontext()
