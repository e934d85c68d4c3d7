"""The audit of what is stored: read only, a page of tasks at a time, with memory for one page and what is open."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any
from uuid import UUID

from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.db.models.fields.json import KeyTextTransform

from ..clock import now
from ..models import IS_UNFINISHED, Step, Task, TaskEvent, TaskResult
from ..taskqueue.reading import read_values
from .history import Breach, Event, Row, StepRow, TaskHistory
from .lanes import Allowed, LaneHistory, Limits
from .relations import as_batch, as_count, broken_relations, broken_slots
from .rules import breaches_of

PAGE = 500
MOST_LISTED = 1000  # breaches that are kept in full; beyond that they are only counted
TRIES = 5
PLAIN = (
    "pk", "status", "attempts", "refunds", "max_attempts", "locked_by", "retry_of_id", "lane", "queue", "func_path",
    "unique_key", "run_id", "batch", "follows_id",
)  # fmt: skip
TIMES = ("created_at", "eta", "expires_at", "deadline_at")
EVENT_COLUMNS = ("task_id", "ts", "kind", "attempt", "actor", "data", "pk")
STEP_COLUMNS = ("task_id", "pk", "name", "kind", "attempt", "actor", "ts")
KEPT = 90 * 86400.0  # seconds for which the events of skipped and missed slots are kept


@dataclass(slots=True)
class Audit:
    """The extent of the audit and its findings."""

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


def verify(
    using: str,
    lease: float,
    first: UUID | None = None,
    last: UUID | None = None,
    limits: Limits = lambda _lane: Allowed(None, None, 0.0),
    kept: float | None = None,
) -> Iterator[Audit]:
    """Check all tasks whose ids lie within these; yields the same audit after each page, to tell how far it is.

    `kept` is the shortest retention in seconds: members and runs that ended before may have been pruned.
    """
    audit, lanes = Audit(lease), LaneHistory(limits)
    kept_since = now(using) - timedelta(seconds=min(kept or KEPT, KEPT))
    for page in pages(Task.objects.using(using), within("pk", first, last)):
        lives = read_histories(page, using)
        audit.tasks += len(lives)
        audit.events += sum(len(life.events) for life in lives)
        for life in lives:
            lanes.add(life)
            for breach in believed(life, lease, using):
                audit.note(breach)
        for breach in chain(broken_relations(lives, using, kept_since.timestamp()), lanes.settle(made_at(page[-1]))):
            audit.note(breach)
        yield audit
    start = kept_since if first is None else max(kept_since, datetime.fromtimestamp(made_at(first), UTC))
    end = now(using) if last is None else datetime.fromtimestamp(made_at(last), UTC)
    rest = [check(using, first, last) for check in (orphans, duplicates, throttled_twice)]
    for breach in chain(lanes.settle(), *rest, broken_slots(using, start, end)):
        audit.note(breach)
    yield audit


def made_at(task: UUID) -> float:
    """Return when an id was made, in seconds."""
    return (task.int >> 80) / 1000


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


def read_histories(ids: Sequence[UUID], using: str) -> list[TaskHistory]:
    read_at = now(using).timestamp()
    rows = read_values(Task.objects.using(using).filter(pk__in=ids).order_by("pk"), *PLAIN, *TIMES)
    outcomes = dict(TaskResult.objects.using(using).filter(pk__in=ids).values_list("pk", "status"))
    events, steps = read_events(ids, using), read_steps(ids, using)
    return [TaskHistory(pk, row_of(values, outcomes.get(pk)), events[pk], steps[pk], read_at) for pk, *values in rows]


def row_of(values: Sequence[Any], outcome: str | None) -> Row:
    status, attempts, refunds, most, *others = values[: -len(TIMES)]
    times = [None if each is None else each.timestamp() for each in values[-len(TIMES) :]]
    return Row(status, attempts, refunds, most, outcome, *others, *times)


def read_steps(ids: Sequence[UUID], using: str) -> defaultdict[UUID, list[StepRow]]:
    """Read steps without their results, except for the names and counts of batches, and the reasons of intents."""
    steps: defaultdict[UUID, list[StepRow]] = defaultdict(list)
    found = Step.objects.using(using).filter(task_id__in=ids)
    names = [KeyTextTransform(name, "result") for name in ("batch", "count")]
    batches = {pk: named for pk, *named in found.filter(kind="batch").values_list("pk", *names)}
    because = dict(found.filter(kind="intent").values_list("pk", KeyTextTransform("because", "result")))
    for task, pk, name, kind, attempt, actor, ts in read_values(found.order_by("pk"), *STEP_COLUMNS):
        batch, count = batches.get(pk, (None, 0))
        named = as_batch(batch), as_count(count), because.get(pk) or ""
        steps[task].append(StepRow(pk, name, kind, attempt, actor, ts.timestamp(), *named))
    return steps


def read_events(ids: Sequence[UUID], using: str) -> defaultdict[UUID, list[Event]]:
    events: defaultdict[UUID, list[Event]] = defaultdict(list)
    found = TaskEvent.objects.using(using).filter(task_id__in=ids).order_by("id")
    for task, ts, kind, attempt, actor, data, pk in read_values(found, *EVENT_COLUMNS):
        details = data if isinstance(data, dict) else {}
        events[task].append(Event(ts.timestamp(), kind.removeprefix("task."), attempt, actor, details, pk))
    return events


def believed(life: TaskHistory, lease: float, using: str) -> list[Breach]:
    """Return the breaches of a task; if it moved while it was read, read it again until it stood still."""
    found = breaches_of(life, lease)
    for _try in range(TRIES if found else 0):
        before = standing(life.task, using)
        [*again] = read_histories([life.task], using)
        if before == standing(life.task, using):
            return [breach for each in again for breach in breaches_of(each, lease)]
    return found


def standing(task: UUID, using: str) -> tuple[Any, ...]:
    """Return the columns that every move changes; they can always be read."""
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


def throttled_twice(using: str, first: UUID | None, last: UUID | None) -> Iterator[Breach]:
    """Tasks that were enqueued while one that had succeeded still held their key. One that was moved is not judged."""
    tasks, created = Task.objects.using(using), OuterRef("created_at")
    moved = TaskEvent.objects.filter(task=OuterRef("pk"), kind="task.rescheduled")
    holders = tasks.filter(queue=OuterRef("queue"), unique_key=OuterRef("unique_key"), status="SUCCESS")
    taken = Exists(holders.filter(finished_at__lte=created, unique_until__gt=created))
    keyed = tasks.filter(within("pk", first, last), unique_until__isnull=False).filter(taken & ~Exists(moved))
    for task in keyed.order_by("pk").values_list("pk", flat=True)[:MOST_LISTED]:
        yield Breach("throttle", task, "was enqueued while a task that had succeeded held its key")


def duplicates(using: str, first: UUID | None, last: UUID | None) -> Iterator[Breach]:
    """Tasks that share a slot of a schedule, or a unique key while they are unfinished."""
    tasks = Task.objects.using(using).filter(within("pk", first, last))
    keyed = tasks.filter(IS_UNFINISHED, unique_key__isnull=False)
    slots = tasks.filter(schedule__isnull=False, slot__isnull=False)
    for rule, rows, columns in (("slots", slots, ("schedule_id", "slot")), ("unique", keyed, ("queue", "unique_key"))):
        groups = rows.order_by(*columns).values(*columns).annotate(count=Count("pk")).filter(count__gt=1)
        for group in groups.values_list(*columns)[:MOST_LISTED]:
            alike = rows.filter(**dict(zip(columns, group, strict=True))).order_by("pk")
            for task in alike.values_list("pk", flat=True)[1:]:
                yield Breach(rule, task, f"is one more task for {' and '.join(map(str, group))}")
