"""Insert: prepared tasks become rows. A unique key that is taken yields the task that holds it."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any
from uuid import UUID

from django.db import DatabaseError, transaction

from ...errors import InvalidPayload, NotMigrated
from ...middleware import EnqueuedTask, Layers, hooks
from ...models import Task
from ...payloads import calls_hidden
from ..database import is_missing_table
from ..engines import Engine, engine_for
from ..new_tasks import CHUNK, key_of
from ..shards import hold
from .checks import canonical_metadata
from .notify import notify_work_on_commit
from .unique import holders_by_key, resolve_conflict

middleware_logger = logging.getLogger("django_tasks_retry.middleware")


def insert_with_middleware(tasks: Sequence[Task], using: str) -> list[Task]:
    """Insert within the middleware of the tasks' backends, each entered once for all tasks."""
    backends = {task.backend for task in tasks}
    by_backend = {backend: found for backend in backends if (found := hooks(backend, "enqueue"))}
    if not by_backend:
        return insert(tasks, using)
    seen = {task.id: as_seen(task) for task in tasks if task.backend in by_backend}
    with ExitStack() as layers:
        for backend, found in by_backend.items():
            layers.enter_context(Layers(found, [each for each in seen.values() if each.backend == backend]))
        for task in tasks:
            if task.id in seen:
                task.metadata = checked_metadata(task, seen[task.id].metadata)
        return insert(tasks, using)


def as_seen(task: Task) -> EnqueuedTask:
    """Return what middleware sees of a task, and its metadata, which middleware may change."""
    same = ("id", "func_path", "args", "kwargs", "queue", "priority", "backend", "eta")
    columns = {name: getattr(task, name) for name in same}
    return EnqueuedTask(**columns, retry_of=task.retry_of_id, metadata=dict(task.metadata))


def checked_metadata(task: Task, metadata: object) -> dict[str, Any]:
    """The metadata as middleware left it. If it cannot be stored, that is logged, and the old one stays."""
    try:
        return canonical_metadata(metadata, task.backend)
    except InvalidPayload as error:
        middleware_logger.error(
            "middleware gave %s %s metadata that cannot be stored: %s", task.func_path, task.id, error
        )
        return dict(task.metadata)


def insert(tasks: Sequence[Task], using: str) -> list[Task]:
    """Insert prepared tasks and notify. Returns them, or the holders of their unique keys, in the same order."""
    stored = insert_rows(tasks, using)
    notify_work_on_commit({task.queue for task in tasks}, using)
    return stored


def insert_each(chunks: Iterable[Sequence[Task]], using: str) -> list[Task]:
    """Insert plain tasks chunk by chunk, in the transaction of the caller."""
    with in_migrated(using):
        stored = [task for chunk in engine_for(using).insert_each(hidden_chunks(chunks)) for task in chunk]
    notify_work_on_commit({task.queue for task in stored}, using)
    return stored


def hidden_chunks(chunks: Iterable[Sequence[Task]]) -> Iterator[Sequence[Task]]:
    for chunk in chunks:
        with calls_hidden(chunk):
            yield chunk


def insert_rows(tasks: Sequence[Task], using: str) -> list[Task]:
    """Insert without a notification, which is sent from a thread."""
    engine = engine_for(using)
    with calls_hidden(tasks), in_migrated(using), hold(tasks, using), one_transaction(tasks, engine):
        if any(task.unique_key for task in tasks):
            return insert_unique(tasks, engine)
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


def insert_unique(tasks: Sequence[Task], engine: Engine) -> list[Task]:
    stored: dict[UUID, Task] = {}
    # One order for everybody, so that two that enqueue the same keys cannot deadlock.
    in_order = sorted(tasks, key=lambda task: (task.queue if task.unique_key else "", task.unique_key or ""))
    plain = [task for task in in_order if task.conflict is None]
    for start in range(0, len(plain), CHUNK):
        stored |= insert_or_find(plain[start : start + CHUNK], engine)
    for task in in_order:
        if task.conflict is not None:
            stored[task.id] = resolve_conflict(task, engine)
    return [stored[task.id] for task in tasks]


def one_transaction(tasks: Sequence[Task], engine: Engine) -> AbstractContextManager[None]:
    """A single statement is a transaction by itself, without two more round trips to the server."""
    if engine.writes_at_once(tasks):
        return nullcontext()
    # A call that is refused because its key is taken must leave the caller's transaction as it was.
    may_be_refused = any(task.conflict is not None for task in tasks)
    return transaction.atomic(using=engine.using, savepoint=may_be_refused)


def insert_or_find(tasks: Sequence[Task], engine: Engine) -> dict[UUID, Task]:
    """Tasks or holders by the id of the call. Tries again if the holder of a key finished in the meantime."""
    stored: dict[UUID, Task] = {}
    waiting = list(tasks)
    while waiting:
        stored |= {task.id: task for task in engine.insert(waiting)}
        waiting = [task for task in waiting if task.id not in stored]
        holders = holders_by_key(waiting, engine) if waiting else {}
        stored |= {task.id: holders[key_of(task)] for task in waiting if key_of(task) in holders}
        waiting = [task for task in waiting if task.id not in stored]
    return stored
