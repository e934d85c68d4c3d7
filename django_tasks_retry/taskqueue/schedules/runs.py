"""Tasks of schedules, and which of them have not finished."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import BooleanField, Exists, OuterRef
from django.db.models.expressions import RawSQL

from ...models import Schedule, Task
from ..producer.enqueue import Request, prepare
from .definition import found

# As the index has it, word for word: SQLite takes a partial index for nothing else.
UNFINISHED = RawSQL("status IN ('PENDING', 'RUNNING')", [], BooleanField())
DUE_NOW = timedelta(0)


def task_for(schedule: Schedule, slot: datetime | None = None) -> Task:
    """A run that is yet to be written. Raises where the row names what this process cannot call."""
    registered = found(schedule.func_path)
    request = Request(registered.func, schedule.args, schedule.kwargs, eta=DUE_NOW, backend=schedule.backend)
    task = prepare(request._replace(queue=schedule.queue, priority=schedule.priority))
    task.schedule_id, task.slot = schedule.name, slot
    return task


def unfinished_runs(names: Collection[str], using: str) -> dict[str, UUID]:
    """A run that has not finished, by the name of its schedule."""
    runs = Task.objects.using(using).filter(UNFINISHED, schedule_id__in=names)
    return dict(runs.values_list("schedule_id", "pk"))


def has_unfinished_run() -> Exists:
    return Exists(Task.objects.filter(UNFINISHED, schedule_id=OuterRef("pk")))
