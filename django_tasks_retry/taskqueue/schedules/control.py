"""Control: pause, resume and run schedules now. Each decision is kept, with who made it and why."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from ...clock import now
from ...models import Schedule, Task
from ...rules.payload import storable
from ..database import database
from ..events import actor_of
from ..producer.announce import tell_enqueued
from ..producer.around import insert_within
from .history import REASON_LENGTH, record
from .plan import locked_schedule
from .runs import task_for


def pause_schedule(name: str, *, by: Any = None, reason: str = "", backend: str = "default") -> bool:
    """Enqueue nothing until it is resumed. Runs that are enqueued go on. False where it was paused already."""
    using = database(backend)
    with transaction.atomic(using=using):
        schedule = locked_schedule(name, using)
        if schedule.paused_at is not None:
            return False
        why, actor = storable(reason)[:REASON_LENGTH], actor_of(by)
        decide(schedule, using, paused_at=now(using), paused_by=actor, reason=why)
        record("schedule.paused", name, by=actor, reason=reason, using=using)
    return True


def resume_schedule(name: str, *, by: Any = None, reason: str = "", backend: str = "default") -> bool:
    """Go on with the next slot: nothing is enqueued for the past. False where it was not paused."""
    using = database(backend)
    with transaction.atomic(using=using):
        schedule = locked_schedule(name, using)
        if schedule.paused_at is None:
            return False
        following = schedule.timing.after(now(using))
        decide(schedule, using, paused_at=None, paused_by="", reason="", next_at=following)
        record("schedule.resumed", name, by=actor_of(by), reason=reason, using=using)
    return True


def decide(schedule: Schedule, using: str, **changes: Any) -> None:
    for column, value in changes.items():
        setattr(schedule, column, value)
    schedule.updated_at = now(using)
    schedule.save(using=using, update_fields=[*changes, "updated_at"])


def run_schedule_now(name: str, *, by: Any = None, reason: str = "", backend: str = "default") -> Task:
    """Enqueue its call once, beside the plan, also while it is paused."""
    using = database(backend)
    with transaction.atomic(using=using):
        schedule = locked_schedule(name, using)
        [task] = insert_within([task_for(schedule)], using)
        data = {"task": str(task.pk)}
        record("schedule.run_now", name, by=actor_of(by), reason=reason, using=using, data=data)
    tell_enqueued([task])
    return task
