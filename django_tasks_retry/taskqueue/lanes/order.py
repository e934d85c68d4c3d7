"""Strict order: what was begun in a lane is brought to its end before the next one begins."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from ...models import Task
from ...querysets import TaskQuerySet
from ..workflows.wake import batch_of

if TYPE_CHECKING:
    from ..consumer.lanes import Lane


def head_of(lane: Lane, using: str) -> UUID | None:
    """What was begun and not finished, or what that waits for; else the first in line. None where that is elsewhere."""
    in_line = waiting_in(lane.key, using).filter(queue=lane.queue, priority=lane.priority)
    begun = begun_in(lane.key, using)
    if begun is not None:
        batch = awaited_by(begun)
        if batch is None:
            return begun.pk if (begun.queue, begun.priority) == (lane.queue, lane.priority) else None
        # Its members of this lane go before it: it waits for them, and they would wait for it for ever.
        in_line = in_line.filter(batch=batch)
    first: UUID | None = in_line.values_list("pk", flat=True).first()
    return first


def begun_in(lane: str, using: str) -> Task | None:
    """What was begun and waits to go on; where one waits for another, the one that is waited for."""
    tasks = waiting_in(lane, using).filter(attempts__gt=0).only("queue", "priority", "waits_for")
    begun: Task | None = tasks.first()
    while begun is not None and (batch := awaited_by(begun)):
        member: Task | None = tasks.filter(batch=batch).first()
        if member is None:
            break
        begun = member
    return begun


def awaited_by(task: Task) -> UUID | None:
    return batch_of(task.waits_for or "")


def waiting_in(lane: str, using: str) -> TaskQuerySet:
    waiting: TaskQuerySet = Task.objects.using(using).pending().filter(lane=lane, lane__gt="").order_by("eta", "pk")
    return waiting
