"""A batch with a callback: a task that waits, from its first moment, for the batch to end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db import transaction

from ...clock import now
from ...errors import InvalidCall
from ...models import Step, Task
from ...rules.backoff import MAX_DELAY
from ..database import database
from ..producer.announce import tell_enqueued
from ..producer.enqueue import Request, prepare
from .batches import prepared_members, write_members
from .memory import CALLBACK, Kind
from .wake import batch_key


def enqueue_batch(calls: Iterable[Any], *, then: Any) -> list[Task]:
    """Enqueue the calls as one batch, and a call that is due once all of them have ended; all or nothing."""
    callback = checked_callback(then)
    # Named after it, so that whoever holds a member finds the task that will ask for its result.
    batch = callback.id
    members = prepared_members(calls, batch)
    if members:
        callback.waits_for, callback.due_in = batch_key(batch), MAX_DELAY
    using = database(callback.backend)
    with transaction.atomic(using=using):
        written = write_members([*members, callback], callback.backend)
        give_steps([(callback.id, CALLBACK, Kind.BATCH, {"batch": str(batch), "count": len(members)})], using)
    tell_enqueued(written)
    return written[: len(members)]


def checked_callback(then: Any) -> Task:
    callback = prepare(Request.read(then))
    if callback.eta is not None or callback.due_in or callback.unique_key or callback.interval:
        raise InvalidCall("then= is due when its batch has ended, once: leave eta, interval and unique_key out.")
    return callback


def give_steps(steps: Iterable[tuple[UUID, str, str, Any]], using: str) -> None:
    """What new tasks remember before their first attempt."""
    moment = now(using)
    Step.objects.using(using).bulk_create(
        Step(task_id=task_id, name=name, kind=kind, attempt=0, actor="queue", ts=moment, result=result)
        for task_id, name, kind, result in steps
    )
