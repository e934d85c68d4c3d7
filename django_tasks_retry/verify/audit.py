"""The audit of what is stored: task by task, read only, with memory for one page."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any
from uuid import UUID

from django.db.models import Count, Exists, OuterRef, Q, QuerySet

from ..models import Task, TaskEvent, TaskResult
from .history import Breach, Event, Life, Row
from .lanes import Allowed, LaneHistory, Limits
from .rules import breaches_of

PAGE = 500
MOST_LISTED = 1000
"""Breaches that are kept in full; beyond that they are only counted."""

TRIES = 5
COLUMNS = (
    "pk",
    "status",
    "attempts",
    "refunds",
    "max_attempts",
    "locked_by",
    "retry_of_id",
    "lane",
    "queue",
    "func_path",
)
EVENT_COLUMNS = ("task_id", "ts", "kind", "attempt", "actor", "data")


@dataclass(slots=True)
class Audit:
    """What was looked at, and what was found."""

    lease: float
    tasks: int = 0
    events: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    breaches: list[Breach] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not self.counts

    def note(self, breach: Breach) -> None:
        self.counts[breach.rule] += 1
        if len(self.breaches) < MOST_LISTED:
            self.breaches.append(breach)


def no_limits(_lane: str) -> Allowed:
    return Allowed(None, None, 0.0)


def verify(
    using: str, lease: float, first: UUID | None = None, last: UUID | None = None, limits: Limits = no_limits
) -> Iterator[Audit]:
    """Check all tasks whose ids lie within these; yields the same audit after each page, to tell how far it is."""
    audit, lanes = Audit(lease), LaneHistory(limits)
    for page in pages(Task.objects.using(using), within("pk", first, last)):
        lives = read_lives(page, using)
        audit.tasks += len(lives)
        audit.events += sum(len(life.events) for life in lives)
        for life in lives:
            for label in life.row.limited_as:
                lanes.add(label, life)
            for breach in believed(life, lease, using):
                audit.note(breach)
        yield audit
    for breach in chain(lanes.breaches(), orphans(using, first, last), doubled_slots(using, first, last)):
        audit.note(breach)
    yield audit


def within(column: str, first: UUID | None, last: UUID | None) -> Q:
    condition = Q() if first is None else Q(**{f"{column}__gte": first})
    return condition if last is None else condition & Q(**{f"{column}__lte": last})


def pages(rows: QuerySet[Any], condition: Q) -> Iterator[list[UUID]]:
    """Primary keys in their order."""
    rows = rows.filter(condition).order_by("pk")
    page = list(rows.values_list("pk", flat=True)[:PAGE])
    while page:
        yield page
        page = list(rows.filter(pk__gt=page[-1]).values_list("pk", flat=True)[:PAGE])


def read_lives(ids: Sequence[UUID], using: str) -> list[Life]:
    rows = list(Task.objects.using(using).filter(pk__in=ids).order_by("pk").values_list(*COLUMNS))
    outcomes = dict(TaskResult.objects.using(using).filter(pk__in=ids).values_list("pk", "status"))
    events = read_events(ids, using)
    return [
        Life(pk, Row(status, attempts, refunds, most, outcomes.get(pk), holder, retry_of, *places), events[pk])
        for pk, status, attempts, refunds, most, holder, retry_of, *places in rows
    ]


def read_events(ids: Sequence[UUID], using: str) -> defaultdict[UUID, list[Event]]:
    events: defaultdict[UUID, list[Event]] = defaultdict(list)
    found = TaskEvent.objects.using(using).filter(task_id__in=ids).order_by("id").values_list(*EVENT_COLUMNS)
    for task, ts, kind, attempt, actor, data in found:
        told = data if isinstance(data, dict) else {}
        events[task].append(Event(ts.timestamp(), kind.removeprefix("task."), attempt, actor, told))
    return events


def believed(life: Life, lease: float, using: str) -> list[Breach]:
    """The breaches of a life; of one that went on while it was read, once it stood still for that long."""
    found = breaches_of(life, lease)
    for _try in range(TRIES if found else 0):
        before = standing(life.task, using)
        [*again] = read_lives([life.task], using)
        if before == standing(life.task, using):
            return [breach for each in again for breach in breaches_of(each, lease)]
    return found


def standing(task: UUID, using: str) -> tuple[Any, ...]:
    """What every move changes; nothing of it is ever unreadable."""
    row = Task.objects.using(using).filter(pk=task).values_list("status", "attempts", "refunds").first()
    last = TaskEvent.objects.using(using).filter(task_id=task).order_by("-id").values_list("pk", flat=True).first()
    return row, last


def orphans(using: str, first: UUID | None, last: UUID | None) -> Iterator[Breach]:
    """Results and events whose task is gone: pruning takes all three together."""
    gone = ~Exists(Task.objects.using(using).filter(pk=OuterRef("task_id")))
    for model, what in ((TaskResult, "a result"), (TaskEvent, "events")):
        left = model.objects.using(using).filter(within("task_id", first, last)).filter(gone)
        for task in left.order_by("task_id").values_list("task_id", flat=True).distinct()[:MOST_LISTED]:
            yield Breach("orphans", task, f"is gone, and {what} of it is left")


def doubled_slots(using: str, first: UUID | None, last: UUID | None) -> Iterator[Breach]:
    """Slots of a schedule that more than one task was made for."""
    tasks = Task.objects.using(using).filter(within("pk", first, last), schedule__isnull=False, slot__isnull=False)
    slots = tasks.order_by("schedule_id", "slot").values("schedule_id", "slot").annotate(count=Count("pk"))
    for slot in slots.filter(count__gt=1)[:MOST_LISTED]:
        alike = tasks.filter(schedule_id=slot["schedule_id"], slot=slot["slot"]).order_by("pk")
        for task in alike.values_list("pk", flat=True)[1:]:
            yield Breach("slots", task, f"is one more task for the slot {slot['slot']} of {slot['schedule_id']}")
