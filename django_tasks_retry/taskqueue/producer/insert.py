"""Insert: prepared tasks become rows. A unique key that is taken yields the task that holds it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from uuid import UUID

from django.db import DatabaseError, transaction

from ...errors import NotMigrated
from ...models import Task
from ..database_errors import is_missing_table
from ..engines import Engine, engine_for
from .conflicts import settle
from .new_tasks import CHUNK, key_of
from .wakeup import announce_work


def insert(tasks: Sequence[Task], using: str) -> list[Task]:
    """Write prepared tasks. Returns them, or the unfinished tasks that hold their unique keys, in the same order."""
    stored = write(tasks, using)
    announce_work({task.queue for task in tasks}, using)
    return stored


def insert_each(chunks: Iterable[Sequence[Task]], using: str) -> list[Task]:
    """Write chunk after chunk of tasks that nothing stands in the way of, in the transaction of the caller."""
    with in_migrated(using):
        stored = [task for written in engine_for(using).insert_each(chunks) for task in written]
    announce_work({task.queue for task in stored}, using)
    return stored


def write(tasks: Sequence[Task], using: str) -> list[Task]:
    """As `insert`, without a wake-up, which is sent from a thread."""
    engine = engine_for(using)
    with in_migrated(using), one_transaction(tasks, engine):
        if any(task.unique_key for task in tasks):
            return write_keyed(tasks, engine)
        chunks = (tasks[start : start + CHUNK] for start in range(0, len(tasks), CHUNK))
        return [task for chunk in chunks for task in engine.insert(chunk)]


@contextmanager
def in_migrated(using: str) -> Iterator[None]:
    try:
        yield
    except DatabaseError as error:
        if is_missing_table(error):
            raise NotMigrated(using) from error
        raise


def write_keyed(tasks: Sequence[Task], engine: Engine) -> list[Task]:
    stored: dict[UUID, Task] = {}
    # One order for everybody, so that two that enqueue the same keys cannot deadlock.
    in_order = sorted(tasks, key=key_order)
    unsettled = [task for task in in_order if task.conflict is None]
    for start in range(0, len(unsettled), CHUNK):
        stored |= insert_chunk(unsettled[start : start + CHUNK], engine)
    for task in in_order:
        if task.conflict is not None:
            stored[task.id] = settle(task, engine)
    return [stored[task.id] for task in tasks]


def one_transaction(tasks: Sequence[Task], engine: Engine) -> AbstractContextManager[None]:
    """A single statement is a transaction by itself, without two more round trips to the server."""
    if engine.writes_at_once(tasks):
        return nullcontext()
    # A call that is refused because its key is taken must leave the caller's transaction as it was.
    may_be_refused = any(task.conflict is not None for task in tasks)
    return transaction.atomic(using=engine.using, savepoint=may_be_refused)


def insert_chunk(tasks: Sequence[Task], engine: Engine) -> dict[UUID, Task]:
    """By the id that was asked for. Goes round again where the holder of a key finished in the meantime."""
    stored: dict[UUID, Task] = {}
    waiting = list(tasks)
    while waiting:
        stored |= {task.id: task for task in engine.insert(waiting)}
        waiting = [task for task in waiting if task.id not in stored]
        holders = holders_of(waiting, engine) if waiting else {}
        stored |= {task.id: holders[key_of(task)] for task in waiting if key_of(task) in holders}
        waiting = [task for task in waiting if task.id not in stored]
    return stored


def key_order(task: Task) -> tuple[str, str]:
    return task.queue if task.unique_key else "", task.unique_key or ""


def holders_of(tasks: Sequence[Task], engine: Engine) -> dict[tuple[str, str | None], Task]:
    """The unfinished tasks that hold the unique keys of these."""
    holders = {key_of(task): task for task in engine.holders(tasks)}
    for holder in holders.values():
        holder.already_enqueued = True
    return holders
