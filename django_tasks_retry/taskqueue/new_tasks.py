"""Tasks before they are written, and how they look afterwards; and their ids.

Ids rise within a process, so that tasks enqueued together keep their order.
"""

import os
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models.base import ModelState

from ..conf import shard_number
from ..models import CALL_COLUMNS, ORIGIN_COLUMNS, PLACE_COLUMNS, Task
from ..rules.names import in_shard, uuid7
from ..rules.status import Status

FIRST_YEAR, LAST_YEAR = 1900, 9000  # years that every time zone and both databases can store
CHUNK = 2000  # tasks that are written at once
GIVEN = (*ORIGIN_COLUMNS, *CALL_COLUMNS, *PLACE_COLUMNS, "waits_for")
NEW_COLUMNS = tuple(name for name in GIVEN if name != "created_at")
"""Columns that may be given for a new task; all others are the same for each."""

SPANS = {"expires_in": "expires_at", "deadline_in": "deadline_at", "unique_for": "unique_until"}
"""Times that may be given in seconds from now, and their columns."""

BLANK: dict[str, Any] = dict.fromkeys(field.attname for field in Task._meta.concrete_fields)
BLANK |= {"status": Status.PENDING.value, "attempts": 0, "refunds": 0, "due_in": 0.0} | dict.fromkeys(SPANS)


def new_task(**given: Any) -> Task:
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
    copied = {name: getattr(task, name) for name in (*CALL_COLUMNS, "queue", "priority", "on_failure")}
    return new_task(**copied | {"id": new_id(task.backend)} | changes)


def key_of(task: Task) -> tuple[str, str | None]:
    return task.queue, task.unique_key


def has_end(task: Task) -> bool:
    return not task.expires_in is task.expires_at is task.deadline_in is task.deadline_at is None


def as_dated(task: Task, moment: datetime, using: str) -> Task:
    """Return the task as it was written at this moment."""
    if task.eta is None and not (task.due_in or task.interval or task.unique_for or has_end(task)):
        return as_stored(task, {"eta": moment, "created_at": moment, "updated_at": moment}, using)
    eta = task.eta or (moment + timedelta(seconds=task.due_in) if task.due_in else moment)
    dates: dict[str, Any] = {"eta": eta, "created_at": moment, "updated_at": moment}
    if task.interval and task.slot is None:
        dates["slot"] = eta
    deadlines, expiries = ends_of(task, "deadline", moment), ends_of(task, "expires", moment)
    dates |= {"deadline_at": min(deadlines, default=None), "expires_at": min(deadlines + expiries, default=None)}
    if task.unique_for is not None:
        dates["unique_until"] = moment + timedelta(seconds=task.unique_for)
    return as_stored(task, dates, using)


def ends_of(task: Task, name: str, moment: datetime) -> list[datetime]:
    """Return when it expires, or its deadline: it may have one of its own beside the one of its batch."""
    at, seconds = getattr(task, f"{name}_at"), getattr(task, f"{name}_in")
    return ([] if at is None else [at]) + ([] if seconds is None else [moment + timedelta(seconds=seconds)])


def as_stored(task: Task, values: Mapping[str, Any], using: str) -> Task:
    vars(task).update(values)
    state = task._state
    state.adding, state.db = False, using
    return task


COUNTER_BITS, RANDOM_BITS = 12, 62
STEP_BACK_MS = 10_000
"""Milliseconds by which the clock may be set back while ids keep rising; after a larger step they follow it."""

MOST_AT_ONCE = 256

_lock = threading.Lock()
_last = (0, 0)  # the millisecond and the counter of the next id, unless the clock has gone on


def new_id(backend: str = "") -> UUID:
    """Return an id, which names the shard if this is the backend of one."""
    number = shard_number(backend) if backend else 0
    return in_shard(new_ids(1)[0], number) if number else new_ids(1)[0]


def new_ids(count: int) -> list[UUID]:
    """The counter stands right behind the time, so that the beginning of an id tells it from its neighbours."""
    global _last
    # At once: each visit to the kernel takes as long as the rest of an id.
    lot, *numbers = struct.unpack(f"{count + 1}Q", os.urandom(8 * (count + 1)))
    made = []
    with _lock:
        milliseconds, counter = next_place(time.time_ns() // 1_000_000, lot)
        for number in numbers:
            made.append(uuid7(milliseconds, counter << RANDOM_BITS | number >> 64 - RANDOM_BITS))
            overflow, counter = divmod(counter + 1, 1 << COUNTER_BITS)
            milliseconds += overflow
        _last = milliseconds, counter
    return made


def next_place(clock: int, lot: int) -> tuple[int, int]:
    """Behind the last id, or somewhere in a new millisecond."""
    milliseconds, counter = _last
    if clock > milliseconds or milliseconds - clock > STEP_BACK_MS:
        # The top bit stays free, so that there is room to count up.
        return clock, lot >> 64 - (COUNTER_BITS - 1)
    return milliseconds, counter


def rising_ids() -> Iterator[UUID]:
    """Ids for calls of which nobody knows how many there are: drawn some at a time, soon many."""
    count = 1
    while True:
        yield from new_ids(count)
        count = min(2 * count, MOST_AT_ONCE)


def begin_anew() -> None:
    """Reset a forked process: it must not make its parent's ids, nor wait for a lock that nobody holds."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=begin_anew)
