"""The pauses, missing workers and limits that kept due tasks from starting, read once for many tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple
from uuid import UUID

from ..conf import options
from ..display.scope import Scope
from ..display.states import worker_end
from ..errors import InvalidLane
from ..models import FlowLimit, OperatorEvent, Task, TaskEvent, Worker
from ..models.limits import split
from ..rules.lanes.limits import Limit
from ..rules.names import first_of
from ..rules.queues import serves
from ..rules.transitions import EventKind
from ..taskqueue import read_rows, read_values
from ..taskqueue.lanes import decided_limit, labels_of, limit_of, tasks_of
from ..taskqueue.workers import KEEP, sound_workers

MOST = 5000  # tasks of one lane that are read
LOOK_BACK = timedelta(days=1)
Spans = list[tuple[datetime, datetime]]


class Span(NamedTuple):
    start: datetime
    end: datetime
    cause: str
    subject: str = ""


@dataclass
class Backdrop:
    """The pauses, workers and limits since an instant. Each part is read when it is first asked for."""

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
