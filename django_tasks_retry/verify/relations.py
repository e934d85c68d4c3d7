"""Promises between tasks: followers, gathered batches, and slots of schedules. Read by keys, a page at a time."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Exists, Max, OuterRef, Q
from django.db.models.fields.json import KeyTextTransform

from ..models import OperatorEvent, Schedule, Step, Task, TaskQuerySet
from ..taskqueue.database import UNREADABLE
from ..taskqueue.reading import read_rows, unreadable_columns
from .history import Breach, StepRow, TaskHistory
from .rules import ARRIVAL_SECONDS


def broken_relations(lives: Sequence[TaskHistory], using: str, kept_since: float) -> Iterator[Breach]:
    """Check one page. Members of batches that began before `kept_since` may have been pruned."""
    yield from early_followers(lives, using)
    for life in lives:
        for step in life.steps:
            # A retry is given copies of the steps that were recorded before it.
            if step.kind == "batch" and step.batch and (step.attempt > 0 or life.row.retry_of is None):
                yield from early_ends(life, step, using)
                yield from wrong_count(life, step, using, may_be_pruned=step.at < kept_since)


PRUNED = (datetime.min, 0)


def early_followers(lives: Sequence[TaskHistory], using: str) -> Iterator[Breach]:
    followers = [life for life in lives if life.row.follows and life.first("running")]
    ahead = Task.objects.using(using).filter(pk__in={life.row.follows for life in followers})
    ends = {pk: (at, last) for pk, at, last in ahead.values_list("pk", "finished_at", Max("events")) if followers}
    for life in followers:
        claim, (at, last) = life.first("running"), ends.get(life.row.follows, PRUNED)
        if claim and (at is None or claim.number < last):
            yield Breach("follows", life.task, f"began before {life.row.follows} had ended, which it follows")


def early_ends(life: TaskHistory, step: StepRow, using: str) -> Iterator[Breach]:
    """Compare with members that were enqueued before the last attempt began; a retry of a member came later."""
    went_on = went_on_at(life, step)
    claims = [event.at for event in life.events if event.kind == "running" and event.at <= (went_on or 0)]
    if went_on is None or not claims:
        return
    members = members_of(step.batch, using).filter(retry_of=None, created_at__lt=moment(claims[-1]))
    late = Q(finished_at=None) | Q(finished_at__gt=moment(went_on + ARRIVAL_SECONDS))
    for member in members.filter(late).values_list("pk", flat=True)[:1]:
        yield Breach("gather", life.task, f"went on after {step.name!r} before its member {member} had ended")


def went_on_at(life: TaskHistory, step: StepRow) -> float | None:
    """Return when the task went on with the results of the batch; None if nothing tells.

    A task that gathers may fail at any time, so only its success tells. A callback starts when its batch has ended,
    unless a person wanted it earlier.
    """
    if step.attempt > 0:
        completed = life.first("completed")
        return completed.at if completed else None
    wanted = any(event.kind == "rescheduled" and event.actor != "queue" for event in life.events)
    claim = life.first("running")
    return None if wanted or claim is None else claim.at


def wrong_count(life: TaskHistory, step: StepRow, using: str, *, may_be_pruned: bool) -> Iterator[Breach]:
    counted, stored = count_in_steps(step, using), originals(step.batch, using).count()
    # More may be added between the two readings, so the first is repeated.
    if counted == stored or (stored < counted and may_be_pruned) or counted != count_in_steps(step, using):
        return
    yield Breach("batches", life.task, f"step {step.name!r} and its members count {counted} members; {stored} exist")


def count_in_steps(step: StepRow, using: str) -> int:
    """Add up the members that the step began with, and those that members added."""
    added = Step.objects.using(using).filter(task__batch=step.batch, kind="members", attempt__gt=0)
    counts = added.values_list(KeyTextTransform("count", "result"), flat=True)
    return step.count + sum(map(as_count, counts.iterator()))


def members_of(batch: UUID | None, using: str) -> TaskQuerySet:
    members: TaskQuerySet = Task.objects.using(using).filter(batch=batch)
    return members


def originals(batch: UUID | None, using: str) -> TaskQuerySet:
    """Return the members without their retries."""
    earlier = Task.objects.filter(pk=OuterRef("retry_of"), batch=batch)
    return members_of(batch, using).filter(Q(retry_of=None) | ~Exists(earlier))


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def as_count(value: object) -> int:
    try:
        return int(str(value))
    except ValueError:
        return 0


def as_batch(text: object) -> UUID | None:
    try:
        return UUID(str(text))
    except ValueError:
        return None


# Slots of schedules: each task stands on one, none has two tasks, and none is left out without a word


MOMENT = timedelta(microseconds=1)
NOBODY = UUID(int=0)
MOST_SLOTS = 1000  # missing slots of one gap that are looked at
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
