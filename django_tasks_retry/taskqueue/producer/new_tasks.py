"""Tasks that are yet to be written, and how they look once they are."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db.models.base import ModelState

from ...models import CALL_COLUMNS, ORIGIN_COLUMNS, PLACE_COLUMNS, Task
from ...rules.status import Status
from ..ids import new_id

FIRST_YEAR, LAST_YEAR = 1900, 9000
"""Years that every time zone and both databases can store."""

CHUNK = 2000
"""Tasks that are written at once."""

GIVEN = (*ORIGIN_COLUMNS, *CALL_COLUMNS, *PLACE_COLUMNS, "waits_for")
NEW_COLUMNS = tuple(name for name in GIVEN if name != "created_at")
"""What may be given for a new task; all else is the same for every one."""

BLANK: dict[str, Any] = dict.fromkeys(field.attname for field in Task._meta.concrete_fields)
BLANK |= {"status": Status.PENDING.value, "attempts": 0, "refunds": 0, "due_in": 0.0, "expires_in": None}


def new_task(**given: Any) -> Task:
    """A task that is yet to be written."""
    return filled_in(BLANK, **given)


def filled_in(columns: dict[str, Any], **given: Any) -> Task:
    """A task with all these columns, given as a whole: field by field takes Django four times as long."""
    task = Task.__new__(Task)
    values = columns.copy()
    values.update(given, _state=ModelState())
    task.__dict__ = values
    return task


def same_call(task: Task, **changes: Any) -> Task:
    """Another task with the same call, queue and priority, not yet written."""
    copied = {name: getattr(task, name) for name in (*CALL_COLUMNS, "queue", "priority")}
    return new_task(**copied | {"id": new_id()} | changes)


def key_of(task: Task) -> tuple[str, str | None]:
    return task.queue, task.unique_key


def as_dated(task: Task, moment: datetime, using: str) -> Task:
    """As it was written at this moment."""
    if task.eta is None and not (task.due_in or task.interval) and task.expires_in is None:
        return as_stored(task, {"eta": moment, "created_at": moment, "updated_at": moment}, using)
    eta = task.eta or (moment + timedelta(seconds=task.due_in) if task.due_in else moment)
    dates = {"eta": eta, "created_at": moment, "updated_at": moment}
    if task.interval and task.slot is None:
        dates["slot"] = eta
    if task.expires_in is not None:
        dates["expires_at"] = moment + timedelta(seconds=task.expires_in)
    return as_stored(task, dates, using)


def as_stored(task: Task, values: Mapping[str, Any], using: str) -> Task:
    vars(task).update(values)
    state = task._state
    state.adding, state.db = False, using
    return task
