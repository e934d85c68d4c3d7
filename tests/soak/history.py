"""The history as the queue tells it, read from its tables once all is quiet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from django_tasks_retry.verify.history import Event
from tests.soak.journal import Line
from tests.soak.renewals import Sighting
from tests.soak.schedules import number_of


@dataclass(frozen=True, slots=True)
class Row:
    number: int
    status: str
    attempts: int
    refunds: int
    outcome: str | None
    retry_of: UUID | None = None
    name: str = ""  # of the function
    code: str | None = None  # of the error that it ended with
    max_attempts: int = 60
    holder: str | None = None
    created_at: float = 0.0
    eta: float = 0.0
    expires_at: float | None = None
    deadline_at: float | None = None


@dataclass(frozen=True, slots=True)
class History:
    """Everything that a checker needs. `wall` is what the queue's clock showed when the monotonic one showed 0."""

    lease: float
    acknowledged: dict[UUID, int]
    unsure: set[int] = field(default_factory=set)
    rows: dict[UUID, Row] = field(default_factory=dict)
    events: dict[UUID, list[Event]] = field(default_factory=dict)
    lines: dict[UUID, list[Line]] = field(default_factory=dict)
    wall: float = 0.0
    canaries: dict[UUID, float] = field(default_factory=dict)  # when each was enqueued
    outages: list[tuple[float, float]] = field(default_factory=list)  # of the database, for all
    hostile: dict[UUID, str] = field(default_factory=dict)  # of which kind each row is that no client of ours wrote
    locked: set[UUID] = field(default_factory=set)  # tasks whose rows somebody kept locked
    calm: list[tuple[float, float]] = field(default_factory=list)  # while nothing was broken
    sightings: list[Sighting] = field(default_factory=list)
    timeout_grace: float = 1.0
    untimed: bool = False  # how soon tasks were picked up is not judged
    one_writer: bool = False  # at a time: who waits for the others to write may lose a short lease

    def in_order(self, began: float, ended: float) -> bool:
        """Whether the database could be reached all the time."""
        return not any(began < end and start < ended for start, end in self.outages)


def read_rows(hostile: Mapping[UUID, int]) -> dict[UUID, Row]:
    """The arguments of hostile rows are not looked at; their numbers are known."""
    from django.db.models.fields.json import KT

    from django_tasks_retry.models import Task, TaskResult

    ordinary = Task.objects.exclude(pk__in=hostile).values_list("pk", "args", "schedule", "slot").iterator(5000)
    numbers = {pk: number_of(slot) if schedule and slot else args[0] for pk, args, schedule, slot in ordinary} | hostile
    codes = dict(TaskResult.objects.values_list("task_id", KT("error__code")).iterator(5000))
    columns = ("status", "attempts", "refunds", "outcome__status", "retry_of_id")
    found = Task.objects.values_list("pk", "func_path", "max_attempts", "locked_by", *columns).iterator(5000)
    return {
        pk: Row(numbers[pk], *rest, path.rpartition(".")[2], codes.get(pk), budget, holder)
        for pk, path, budget, holder, *rest in found
    }


def read_events() -> dict[UUID, list[Event]]:
    from django_tasks_retry.models import TaskEvent

    events: dict[UUID, list[Event]] = defaultdict(list)
    columns = ("task_id", "ts", "kind", "attempt", "actor", "data")
    for task, ts, kind, attempt, actor, data in TaskEvent.objects.order_by("id").values_list(*columns).iterator(5000):
        events[task].append(Event(ts.timestamp(), kind.removeprefix("task."), attempt, actor, data))
    return events
