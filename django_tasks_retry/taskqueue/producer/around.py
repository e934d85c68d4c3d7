"""Around: the middleware of an enqueue, which may add to the metadata of the calls before they are written."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from ...conf import options
from ...errors import InvalidPayload
from ...middleware import Call, Layers, hooks
from ...models import Task
from ...rules.payload import Budget, canonical, check_size, dump
from .insert import insert

logger = logging.getLogger("django_tasks_retry.middleware")


def insert_within(tasks: Sequence[Task], using: str) -> list[Task]:
    """Insert, with the middleware of the tasks' backends around it, each once for all that are stored together."""
    around = {backend: found for backend in {task.backend for task in tasks} if (found := hooks(backend, "enqueue"))}
    if not around:
        return insert(tasks, using)
    calls = {task.id: call_of(task) for task in tasks if task.backend in around}
    with ExitStack() as layers:
        for backend, found in around.items():
            layers.enter_context(Layers(found, [call for call in calls.values() if call.backend == backend]))
        for task in tasks:
            if task.id in calls:
                task.metadata = added_to(task, calls[task.id].metadata)
        return insert(tasks, using)


def call_of(task: Task) -> Call:
    return Call(
        id=task.id,
        func_path=task.func_path,
        args=task.args,
        kwargs=task.kwargs,
        queue=task.queue,
        priority=task.priority,
        backend=task.backend,
        eta=task.eta,
        retry_of=task.retry_of_id,
        metadata=dict(task.metadata),
    )


def added_to(task: Task, metadata: object) -> dict[str, Any]:
    """What middleware made of the metadata; as it was, and a line in the log, where that cannot be stored."""
    try:
        return canonical_metadata(metadata, task.backend)
    except InvalidPayload as error:
        logger.error("middleware gave %s %s metadata that cannot be stored: %s", task.func_path, task.id, error)
        return dict(task.metadata)


def canonical_metadata(metadata: object, backend: str) -> dict[str, Any]:
    if not isinstance(metadata, Mapping):
        raise InvalidPayload(f"metadata={metadata!r}: give a dictionary.")
    if not metadata:
        return {}
    budget = Budget(options(backend).max_args_size, "metadata")
    stored: dict[str, Any] = canonical(metadata, "metadata", budget)
    check_size(dump(stored), budget.limit, budget.what)
    return stored
