"""A snapshot: what metrics tell of a queue, at a cost that does not grow with the number of stored tasks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.db.models import Q

from ...clock import Now, now
from ...conf import queues as configured_queues
from ...models import Queue, Schedule, Task, TaskTotal, Worker
from ...rules.queues import serves
from ..consumer.workers import alive_workers
from ..database import database
from ..engines import engine_for
from ..schedules.runs import has_unfinished_run
from .histogram import RAN, WAITED
from .summaries import CAP, Depth, depths, expired_leases

MOST_RUNNING = 10_000
LATE = timedelta(seconds=60)
LITERALS = re.compile(r"'(?:[^'\\]|''|\\.)*(?:'|$)|\$(\w*)\$.*?(?:\$\1\$|$)|\b\d+(?:\.\d+)?\b", re.DOTALL)
LONGEST_QUERY = 120


@dataclass(frozen=True, slots=True)
class QueueState:
    """How one queue stands now. `due` is counted up to CAP + 1 in each of its lanes."""

    name: str
    due: int
    oldest_seconds: float
    running: int
    is_paused: bool
    workers: int
    slots: int


@dataclass(frozen=True, slots=True)
class Total:
    """All attempts of one function in one queue, since the beginning."""

    queue: str
    func_path: str
    completed: int
    retried: int
    failed: int
    seconds: float
    wait_seconds: float
    ran: tuple[int, ...]
    waited: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Holder:
    """A transaction that holds back the horizon: while it lasts, rows that are dead must be kept, and read past."""

    pid: str
    seconds: float
    application: str
    state: str
    query: str
    """Without its literals."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    queues: tuple[QueueState, ...] = ()
    totals: tuple[Total, ...] = ()
    workers: int = 0
    slots: int = 0
    retrying: int = 0
    expired: int = 0
    holder: Holder | None = None
    late_schedules: int | None = None
    """None where there are no schedules."""


def snapshot(backend: str = "default") -> Snapshot:
    """Everything that the backend's database tells about its queues. Counts are capped, as in the console."""
    using = database(backend)
    workers = list(alive_workers(backend).only("queues", "exclude", "slots"))
    totals = read_totals(using)
    return Snapshot(
        queues=tuple(queue_states(backend, using, workers, {total.queue for total in totals})),
        totals=totals,
        workers=len(workers),
        slots=sum(worker.slots for worker in workers),
        retrying=len(Task.objects.using(using).retrying().order_by("pk").values_list("pk", flat=True)[: CAP + 1]),
        expired=expired_leases(using),
        holder=holder_of(using),
        late_schedules=late_schedules(backend, using),
    )


def late_schedules(backend: str, using: str) -> int | None:
    """Whose slot came a while ago and was neither enqueued nor given up. None where there are no schedules."""
    schedules = Schedule.objects.using(using).filter(backend=backend)
    if not schedules.exists():
        return None
    # What is queued behind its previous run waits for that.
    waiting = Q(overlap="queue") & Q(has_unfinished_run())
    late: int = schedules.active().filter(next_at__lt=Now() - LATE).exclude(waiting).count()
    return late


def queue_states(backend: str, using: str, workers: Sequence[Worker], seen: set[str]) -> list[QueueState]:
    lanes, moment = depths(using), now(using)
    paused = set(Queue.objects.using(using).paused().values_list("name", flat=True))
    # In the order of an index, and bounded: whatever the planner believes, it does not walk the table.
    leased = Task.objects.using(using).running().order_by("locked_by").values_list("queue", flat=True)
    running = Counter(leased[:MOST_RUNNING])
    names = {*configured_queues(backend), *(lane.queue for lane in lanes), *running, *paused, *seen}
    states = [state_of(name, lanes, moment, workers) for name in sorted(names)]
    return [replace(state, running=running[state.name], is_paused=state.name in paused) for state in states]


def state_of(name: str, lanes: Sequence[Depth], moment: datetime, workers: Sequence[Worker]) -> QueueState:
    due = [lane for lane in lanes if lane.queue == name and lane.due]
    serving = [worker for worker in workers if serves(name, worker.queues, worker.exclude)]
    oldest = min((lane.oldest_eta for lane in due), default=moment)
    return QueueState(
        name=name,
        due=sum(lane.due for lane in due),
        oldest_seconds=max(0.0, (moment - oldest).total_seconds()),
        running=0,
        is_paused=False,
        workers=len(serving),
        slots=sum(worker.slots for worker in serving),
    )


def read_totals(using: str) -> tuple[Total, ...]:
    plain = ("queue", "func_path", "completed", "retried", "failed", "seconds", "wait_seconds")
    rows = TaskTotal.objects.using(using).order_by("queue", "func_path").values(*plain, *RAN, *WAITED)
    return tuple(
        Total(
            **{name: row[name] for name in plain},
            ran=tuple(row[name] for name in RAN),
            waited=tuple(row[name] for name in WAITED),
        )
        for row in rows
    )


def holder_of(using: str) -> Holder | None:
    found = engine_for(using).horizon_holder()
    return Holder(**{**found, "query": without_literals(found["query"] or "")}) if found else None


def without_literals(query: str) -> str:
    """What a statement does, without the values that it does it with: they may be secret."""
    return " ".join(LITERALS.sub("?", query).split())[:LONGEST_QUERY]
