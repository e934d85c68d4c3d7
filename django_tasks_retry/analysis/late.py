"""Why late: the wait of a task, split into causes that add up to it exactly. Read from its history alone.

Each instant between the enqueue and the end, at which no attempt ran, has one cause: the first of CAUSES that held.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from itertools import accumulate
from operator import itemgetter
from typing import Any, NamedTuple
from uuid import UUID

from django.utils.translation import gettext_lazy

from ..conf import options
from ..display.events import as_mapping
from ..display.formatting import format_duration, one_line
from ..display.scope import Scope
from ..display.states import worker_end
from ..errors import InvalidLane
from ..models import FlowLimit, OperatorEvent, Task, TaskEvent, Worker
from ..models.limits import split
from ..rules.lanes.limits import Limit
from ..rules.names import first_of, worker_of
from ..rules.queues import serves
from ..rules.transitions import EventKind
from ..taskqueue import read_rows, read_values, statistics
from ..taskqueue.lanes import decided_limit, labels_of, limit_of, tasks_of
from ..taskqueue.workers import KEEP, sound_workers
from ..utc import as_instant

CAUSES: dict[str, Any] = {
    "backoff": gettext_lazy("between a failed attempt and the next"),
    "asked": gettext_lazy("the task asked to go on later, or for a signal or a batch"),
    "not_due": gettext_lazy("not due yet"),
    "paused": gettext_lazy("paused by"),
    "database_away": gettext_lazy("its worker lived, but could not renew the lease"),
    "worker_died": gettext_lazy("its worker, or all of its queue, had died"),
    "deploying": gettext_lazy("one worker had stopped, and the next had not started"),
    "no_worker": gettext_lazy("no worker served the queue and knew the function"),
    "limited": gettext_lazy("as many ran as its limit allows"),
    "rate": gettext_lazy("as many had started as its rate allows"),
    "unknown": gettext_lazy("so long ago that workers of then are forgotten"),
    "behind": gettext_lazy("others were ahead, or a worker was about to take it"),
}
MOST = 5000  # tasks of one lane that are read
SAMPLE = 500
LOOK_BACK = timedelta(days=1)
Spans = list[tuple[datetime, datetime]]


class Part(NamedTuple):
    cause: str
    subject: str
    time: timedelta


class Span(NamedTuple):
    start: datetime
    end: datetime
    cause: str
    subject: str = ""


class Late(NamedTuple):
    task: UUID
    wait: timedelta
    worked: timedelta
    parts: list[Part]


def why_late(task: Task, scope: Scope) -> Late:
    return split_waits([task], scope)[0]


def split_waits(tasks: Sequence[Task], scope: Scope) -> list[Late]:
    """Split the waits of several tasks, for which pauses, workers and limits are read once."""
    events: dict[UUID, list[TaskEvent]] = defaultdict(list)
    ids = [task.pk for task in tasks]
    for event in read_rows(TaskEvent.objects.using(scope.using).filter(task_id__in=ids).order_by("id")):
        events[event.task_id].append(event)
    backdrop = Backdrop(scope, min((task.created_at for task in tasks), default=scope.now))
    return [split_wait(task, events[task.pk], backdrop) for task in tasks]


def split_wait(task: Task, events: Sequence[TaskEvent], backdrop: Backdrop) -> Late:
    end = max(task.finished_at or backdrop.scope.now, task.created_at)
    sums: dict[tuple[str, str], timedelta] = defaultdict(timedelta)
    for span in causes_of(task, Timeline(task, events, backdrop, end), backdrop):
        sums[span.cause, span.subject] += span.end - span.start
    parts = sorted((Part(*key, time) for key, time in sums.items() if time), key=lambda part: part.time, reverse=True)
    wait = sum((part.time for part in parts), timedelta())
    return Late(task.pk, wait, end - task.created_at - wait, parts)


def causes_of(task: Task, timeline: Timeline, backdrop: Backdrop) -> Iterator[Span]:
    for span in timeline.spans():
        if span.cause != "due":
            yield span
            continue
        free: Spans = [(span.start, span.end)]
        for known in backdrop.spans(task, span.start, span.end):
            yield from (Span(*taken, known.cause, known.subject) for taken in cut(free, known.start, known.end))
        yield from (Span(start, end, "behind", task.queue) for start, end in free)


def cut(free: Spans, start: datetime, end: datetime) -> Spans:
    """Take the time between the two out of `free`, which is in order, and return what was there of it."""
    if end <= start:
        return []
    first, last = bisect_right(free, start, key=itemgetter(1)), bisect_left(free, end, key=itemgetter(0))
    taken = [(max(began, start), min(ended, end)) for began, ended in free[first:last]]
    if taken:
        left = [(free[first][0], start), (end, free[last - 1][1])]
        free[first:last] = [(began, ended) for began, ended in left if began < ended]
    return taken


@dataclass(slots=True)
class Timeline:
    """The times of one task at which no attempt ran, from its events: `due`, or with their cause."""

    task: Task
    events: Sequence[TaskEvent]
    backdrop: Backdrop
    end: datetime

    def spans(self) -> Iterator[Span]:
        since: datetime = self.task.created_at
        due, cause, runner = self.first_due, "not_due", ""
        for event in self.events:
            at, data = min(max(event.ts, since), self.end), as_mapping(event.data)
            if event.kind == EventKind.LEASE_LOST:
                yield self.lost(since, at, runner)
                since, due, runner = at, at, ""
            elif event.kind == EventKind.RUNNING:
                yield from waited(since, at, due, cause)
                since, runner = at, event.actor
            elif event.kind == EventKind.RESCHEDULED:
                eta = moment_of(data.get("eta")) or at
                yield from waited(since, at, max(at, due) if eta <= at and cause != "backoff" else due, cause)
                since, due, cause = at, eta, "not_due"
            elif runner and event.kind in (EventKind.REQUEUED, EventKind.RELEASED):
                due = moment_of(data.get("eta")) or at
                since, cause, runner = at, "backoff" if event.kind == EventKind.REQUEUED else "asked", ""
        if not runner and since < self.end:
            yield from waited(since, self.end, due, cause)

    @property
    def first_due(self) -> datetime:
        """Return the eta of the first attempt: as the first report tells it, or the row if nothing has changed it."""
        due: datetime = self.task.eta
        for event in self.events:
            data = as_mapping(event.data)
            if "due" in data or event.kind in (EventKind.REQUEUED, EventKind.RESCHEDULED, EventKind.RELEASED):
                due = moment_of(data.get("due")) or self.task.created_at
                break
        return due

    def lost(self, began: datetime, at: datetime, runner: str) -> Span:
        """Tell from when on nobody worked at it, although it was leased."""
        worker = next((each for each in self.backdrop.workers if each.pk == worker_of(runner)), None)
        renewed = max(began, at - self.backdrop.lease)
        if worker is None:
            return Span(renewed, at, "worker_died", runner)
        if worker.stopped_at is None and worker.heartbeat_at >= at:
            return Span(renewed, at, "database_away", worker.pk)
        return Span(min(at, max(began, worker.stopped_at or worker.heartbeat_at)), at, "worker_died", worker.pk)


def waited(since: datetime, until: datetime, due: datetime, cause: str) -> Iterator[Span]:
    """Divide a wait at the instant at which the task became due."""
    turn = min(max(since, due), until)
    if since < turn:
        yield Span(since, turn, cause)
    if turn < until:
        yield Span(turn, until, "due")


def moment_of(text: Any) -> datetime | None:
    try:
        return as_instant(datetime.fromisoformat(str(text)))
    except ValueError:
        return None


@dataclass
class Backdrop:
    """The pauses, missing workers and limits that kept due tasks from starting since an instant."""

    scope: Scope
    since: datetime
    occupied: dict[str, list[Span]] = field(default_factory=dict)

    @property
    def lease(self) -> timedelta:
        return timedelta(seconds=options(self.scope.backend).lease)

    def spans(self, task: Task, start: datetime, end: datetime) -> Iterator[Span]:
        """Yield what held then, the first cause first."""
        labels = labels_of(task)
        for label in labels:
            yield from self.pauses.get(label, ())
        yield from self.gaps(task)
        for label in labels:
            yield from self.limited(label, start, end)
        known_since = min([worker.started_at for worker in self.serving(task)], default=end)
        yield Span(start, min(end, known_since, self.scope.now - KEEP), "unknown", task.queue)

    @cached_property
    def pauses(self) -> dict[str, list[Span]]:
        """Read the times in which queues, functions and lanes were paused, by label, with the author of each."""
        kinds = ("queue.paused", "queue.resumed", "lane.paused", "lane.resumed", "lane.probing")
        found: dict[str, list[Span]] = defaultdict(list)
        open_ones: dict[str, OperatorEvent] = {}
        decided = OperatorEvent.objects.using(self.scope.using).filter(kind__in=kinds).order_by("-id")[:MOST]
        for event in reversed(read_rows(decided)):
            kind = event.kind.partition(".")[0]
            label = f"queue:{event.subject}" if kind == "queue" else event.subject
            if before := open_ones.pop(label, None):
                found[label].append(Span(before.ts, event.ts, "paused", f"{label}, {before.actor}"))
            if event.kind.endswith(".paused"):
                open_ones[label] = event
        for label, event in open_ones.items():
            found[label].append(Span(event.ts, self.scope.now, "paused", f"{label}, {event.actor}"))
        return found

    # Workers

    @cached_property
    def workers(self) -> list[Worker]:
        known = Worker.objects.using(self.scope.using).filter(backend=self.scope.backend)
        return sound_workers(known.order_by("started_at"))

    def gaps(self, task: Task) -> Iterator[Span]:
        """Yield the times in which no worker served the queue and knew the function, by what ended the one before."""
        now, until, cause, subject = self.scope.now, self.scope.now - KEEP, "unknown", task.queue
        for worker in self.serving(task):
            yield Span(until, worker.started_at, "no_worker" if cause == "unknown" else cause, subject)
            if (ended := worker_end(worker, now)) > until:
                until, cause, subject = ended, "deploying" if worker.stopped_at else "worker_died", worker.pk
        yield Span(until, now, "worker_died" if cause == "worker_died" else "no_worker", subject)

    def serving(self, task: Task) -> list[Worker]:
        return [
            worker
            for worker in self.workers
            if serves(task.queue, worker.queues, worker.exclude) and task.func_path in worker.tasks
        ]

    # Limits

    def limited(self, label: str, start: datetime, end: datetime) -> list[Span]:
        if label not in self.occupied:
            limit = self.limit_of(label)
            attempts = self.attempts(label) if limit.is_limited else []
            self.occupied[label] = [*full(label, limit.most_running, attempts), *throttled(label, limit, attempts)]
        return [span for span in self.occupied[label] if span.start < end and span.end > start]

    def limit_of(self, label: str) -> Limit:
        limit = limit_of(label, self.scope.backend)
        with suppress(InvalidLane):  # of a row that cannot be read
            for state in read_rows(FlowLimit.objects.using(self.scope.using).among([label])):
                limit = decided_limit(state, limit)
        return limit

    def attempts(self, label: str) -> Spans:
        """Return when attempts under this limit began and ended, among the tasks enqueued since a day before."""
        first = first_of(int((self.since - LOOK_BACK).timestamp() * 1000))
        tasks = tasks_of(Task.objects.using(self.scope.using).filter(pk__gte=first), *split(label)).order_by("pk")
        ids = list(tasks.values_list("pk", flat=True)[:MOST])
        found, open_ones = [], dict[UUID, datetime]()
        for n in range(0, len(ids), 500):
            events = TaskEvent.objects.using(self.scope.using).filter(task_id__in=ids[n : n + 500]).order_by("id")
            for task, kind_of, ts in read_values(events, "task_id", "kind", "ts"):
                if (began := open_ones.pop(task, None)) is not None:
                    found.append((began, ts))
                if kind_of == EventKind.RUNNING:
                    open_ones[task] = ts
        return found + [(began, self.scope.now) for began in open_ones.values()]


def full(label: str, most: int | None, attempts: Spans) -> Iterator[Span]:
    """Yield the times in which as many ran as the limit allows."""
    changes = sorted((at, step) for span in attempts for at, step in zip(span, (1, -1), strict=True))
    running = accumulate(step for _at, step in changes)
    for (at, _), (until, _), count in zip(changes, changes[1:], running, strict=False):
        if most is not None and count >= most:
            yield Span(at, until, "limited", label)


def throttled(label: str, limit: Limit, attempts: Spans) -> Iterator[Span]:
    """Yield the times in which as many had started within the window as the rate allows."""
    starts, window = sorted(start for start, _end in attempts), timedelta(seconds=limit.per)
    if limit.starts is not None:
        for first, last in zip(starts, starts[limit.starts - 1 :], strict=False):
            if last < first + window:
                yield Span(last, first + window, "rate", label)


def rows_of(found: Late) -> list[tuple[str, str]]:
    """Return each part as people read it: how long, and by what."""
    return [(format_duration(time.total_seconds()), cause_text(cause, subject)) for cause, subject, time in found.parts]


def cause_text(cause: str, subject: str) -> str:
    return f"{CAUSES[cause]}{': ' if subject else ''}{one_line(subject, 160)}"


# Many tasks


class Overall(NamedTuple):
    """The waits of the newest tasks of one function in one queue, in seconds; `causes` has the share of each."""

    func_path: str
    queue: str
    tasks: int
    median: float
    p95: float
    causes: dict[str, float]


def overall(scope: Scope, since: timedelta, **chosen: str) -> list[Overall]:
    """Split the waits of the newest tasks with these columns that have begun, and sum them up, the longest first."""
    begun = Task.objects.using(scope.using).filter(started_at__isnull=False, created_at__gte=scope.now - since)
    floor = statistics.newest_before(statistics.LOOK_BACK, scope.using) or UUID(int=0)
    begun = begun.filter(pk__gte=floor, **chosen).order_by("-pk")
    tasks = read_rows(begun.defer("args", "kwargs", "metadata", "last_error")[:SAMPLE])
    groups: dict[tuple[str, str], list[Late]] = defaultdict(list)
    for task, late in zip(tasks, split_waits(tasks, scope), strict=True):
        groups[task.func_path, task.queue].append(late)
    return sorted((summed(*key, waits_of) for key, waits_of in groups.items()), key=lambda each: -each.p95)


def summed(func_path: str, queue: str, waits_of: Sequence[Late]) -> Overall:
    seconds = sorted(late.wait.total_seconds() for late in waits_of)
    causes, whole = defaultdict[str, float](float), sum(seconds) or 1.0
    for part in (part for late in waits_of for part in late.parts):
        causes[part.cause] += part.time.total_seconds() / whole
    largest = dict(sorted(causes.items(), key=lambda each: -each[1]))
    median, p95 = seconds[len(seconds) // 2], seconds[len(seconds) * 19 // 20]
    return Overall(func_path, queue, len(seconds), median, p95, largest)
