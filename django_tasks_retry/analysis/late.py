"""Why late: the wait of a task, split into causes that add up to it exactly. Read from its history alone.

Each instant between the enqueue and the end, at which no attempt ran, has one cause: the first of CAUSES that held.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any, NamedTuple
from uuid import UUID

from django.utils.translation import gettext_lazy

from ..display.events import as_mapping
from ..display.formatting import format_duration, one_line
from ..display.scope import Scope
from ..models import Task, TaskEvent
from ..rules.names import worker_of
from ..rules.transitions import EventKind
from ..taskqueue import read_rows, statistics
from ..utc import as_instant
from .backdrop import Backdrop, Span, Spans

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
SAMPLE = 500


class Part(NamedTuple):
    cause: str
    subject: str
    time: timedelta


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
