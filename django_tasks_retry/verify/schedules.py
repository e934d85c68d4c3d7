"""Slots of schedules: each task stands on one, none has two tasks, and none is left out without a word."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from ..models import OperatorEvent, Schedule, Task
from ..taskqueue.database import UNREADABLE
from ..taskqueue.reading import read_rows, unreadable_columns
from .history import Breach

MOMENT = timedelta(microseconds=1)
NOBODY = UUID(int=0)
MOST_SLOTS = 1000
"""Missing slots of one gap that are looked at."""

REPORTED = ("schedule.missed", "schedule.skipped")
STOPPED = ("schedule.vanished", "schedule.changed")
"""A schedule that leaves the code, or returns to it, moves to its next slot and stays as it was otherwise."""


def broken_slots(using: str, since: datetime, until: datetime) -> Iterator[Breach]:
    """Check the slots from `since` to `until`, of each schedule since it was last changed."""
    for schedule in read_rows(Schedule.objects.using(using).order_by("pk")):
        if not unreadable_columns(schedule) and schedule.last_at is not None:
            try:
                yield from wrong_slots(schedule, max(since, schedule.updated_at), min(until, schedule.last_at), using)
            except UNREADABLE:
                continue  # no timing that a worker could run by, either


def wrong_slots(schedule: Schedule, since: datetime, until: datetime, using: str) -> Iterator[Breach]:
    """Walk along the tasks in the order of their slots, by the index of slots."""
    tasks = Task.objects.using(using).filter(schedule=schedule, slot__gt=since, slot__lte=until).order_by("slot")
    before, last = since, None
    for task, slot in tasks.values_list("pk", "slot").iterator():
        if schedule.timing.after(slot - MOMENT) != slot:
            yield Breach("rhythm", task, f"has the slot {slot}, which is none of {schedule.name}")
            continue
        yield from left_out(schedule, before, slot, task, using)
        before, last = slot, task
    yield from left_out(schedule, before, until + MOMENT, last or NOBODY, using)


def left_out(schedule: Schedule, after: datetime, until: datetime, task: UUID, using: str) -> Iterator[Breach]:
    """Yield the first slot between two tasks that has no task, and that no event explains."""
    slot = schedule.timing.after(after)
    if slot is None or slot >= until:
        return
    decisions = OperatorEvent.objects.using(using).filter(
        subject=schedule.name, ts__gte=after, ts__gt=schedule.updated_at
    )
    events = read_rows(decisions.filter(kind__in=(*REPORTED, *STOPPED)).order_by("id")[:MOST_SLOTS])
    details = [(event.kind, event.data if isinstance(event.data, dict) else {}) for event in events]
    if any(kind == STOPPED[0] or "source" in data.get("changed", ()) for kind, data in details if kind in STOPPED):
        return
    reported = [data for kind, data in details if kind in REPORTED]
    for _ in range(MOST_SLOTS):
        if slot is None or slot >= until:
            return
        ends = [last for each in reported if (last := last_reported(each, slot))]
        if not ends:
            yield Breach(
                "missed-slots", task, f"the slot {slot} of {schedule.name} beside it has no task, and no event"
            )
            return
        slot = schedule.timing.after(max(ends))


def last_reported(data: dict[str, Any], slot: datetime) -> datetime | None:
    """Return the last slot that this event tells of, if it tells of this one."""
    first, last = (as_moment(data.get(name, data.get("slot"))) for name in ("first", "last"))
    return last if first and last and first <= slot <= last else None


def as_moment(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(text)).astimezone(UTC)
    except ValueError:
        return None
