"""Claim: due tasks become RUNNING under a lease. Two claimers never get the same task, and nobody waits for anybody.

A *lane* is a (queue, priority) pair in use. Each claim reads one bounded index range per lane, from the floor that the
last claim reached, so that its cost depends neither on tasks scheduled for later, nor on finished ones, nor on dead
index entries that an old transaction keeps from being vacuumed. Lanes are looked up afresh once a second, and whenever
a claim comes back short; tasks that sort below a floor (a retry, an earlier eta) are found then. A few lanes in which
nothing is due are remembered for a while, so that the next arrival in them is claimed without another look. Looking
does walk dead index entries, so where that has become slow it is done less often.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import CharField, F, Value
from django.db.models.functions import Cast, Coalesce, Concat

from .. import registry
from ..clock import frozen, now
from ..conf import options
from ..models import Queue, Task
from ..rules.status import Status
from ..rules.transitions import CLAIM, KEPT, EventKind
from .database import as_array, database, fetch, is_postgresql, statement
from .events import event, write_events
from .lease import COLUMNS, Lease, read_lease

REMEMBER_SECONDS = 1.0
QUIET_SECONDS = 60.0
QUIET_LANES = 16
SHARE_OF_TIME = 0.05  # that a claimer may spend on looking where it is slow
EARLIEST = UUID(int=0)


@dataclass(slots=True)
class Lane:
    queue: str
    priority: int
    floor_eta: datetime
    floor_id: UUID = EARLIEST
    due_at: float = field(default_factory=time.monotonic)


@dataclass(slots=True)
class Lanes:
    """What one claimer remembers between claims."""

    queues: Sequence[str] = ("*",)
    exclude: Sequence[str] = ()
    paths: Sequence[str] | None = None  # functions to claim for; None means all that this process knows
    lanes: list[Lane] = field(default_factory=list)
    looked_at: float = float("-inf")
    spent: float = 0.0
    rest: float = 0.0
    came_short: bool = False
    slow: float = 0.01  # seconds that looking may take before it needs rest

    def serves(self, queue: str) -> bool:
        return matches(queue, self.queues) and not matches(queue, self.exclude)

    def look(self, using: str) -> bool:
        """Find the lanes whose first task is due, and forget their floors. Whether there are any."""
        began = time.monotonic()
        due = [Lane(*row) for row in fetch(lanes_statement(using), None, using) if self.serves(row[0])]
        self.looked_at, self.came_short = time.monotonic(), False
        self.lanes = due + self.quiet_beside(due)
        # Twice in a row, since a busy machine makes anything slow once; and never with nothing to fall back on.
        spent = self.looked_at - began
        steadily, self.spent = min(spent, self.spent), spent
        self.rest = steadily / SHARE_OF_TIME if steadily > self.slow and self.lanes else 0.0
        return bool(due)

    def quiet_beside(self, due: Sequence[Lane]) -> list[Lane]:
        """Other lanes, in which something was due not long ago."""
        names = {(lane.queue, lane.priority) for lane in due}
        quiet = [lane for lane in self.lanes if (lane.queue, lane.priority) not in names]
        recent = [lane for lane in quiet if self.looked_at - lane.due_at < QUIET_SECONDS]
        return sorted(recent, key=lambda lane: -lane.due_at)[:QUIET_LANES]

    def are_stale(self) -> bool:
        age = time.monotonic() - self.looked_at
        return age >= self.rest and (self.came_short or age > REMEMBER_SECONDS)

    def may_look(self) -> bool:
        return time.monotonic() - self.looked_at >= self.rest

    def in_order(self) -> list[Lane]:
        """Higher priorities first; queues of one priority take turns."""
        random.shuffle(self.lanes)
        self.lanes.sort(key=lambda lane: -lane.priority)
        return self.lanes

    def raise_floors(self, leases: Sequence[Lease]) -> None:
        reached = {(lease.queue, lease.priority): (lease.eta, lease.id) for lease in leases}
        for lane in self.lanes:
            if floor := reached.get((lane.queue, lane.priority)):
                (lane.floor_eta, lane.floor_id), lane.due_at = floor, time.monotonic()


def lanes_statement(using: str) -> str:
    return statement("lanes" if is_postgresql(using) else "lanes_sqlite")


def matches(queue: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(queue, pattern) for pattern in patterns)


def claim(
    worker_id: str,
    queues: Sequence[str] = ("*",),
    limit: int = 1,
    lease: float | None = None,
    *,
    backend: str = "default",
    lanes: Lanes | None = None,
) -> list[Lease]:
    """Up to `limit` leases, most urgent first. Pass the same `lanes` each time to let claims build on one another.

    What the remembered lanes yield is not held back until others are looked for: the next claim does that, and while
    `lanes.came_short` there may be more.
    """
    using, lanes = database(backend), lanes or Lanes(queues)
    seconds = options(backend).lease if lease is None else lease
    known = registry.known_paths() if lanes.paths is None else lanes.paths
    terms = Terms(worker_id, backend, seconds, known)
    if not lanes.are_stale():
        leases = take(lanes, limit, terms, using)
        lanes.came_short = 0 < len(leases) < limit
        if leases or not lanes.may_look():
            return leases
    return take(lanes, limit, terms, using) if lanes.look(using) else []


@dataclass(frozen=True, slots=True)
class Terms:
    worker_id: str
    backend: str
    seconds: float
    known: Sequence[str]


def take(lanes: Lanes, limit: int, terms: Terms, using: str) -> list[Lease]:
    if not lanes.lanes or limit < 1:
        return []
    take_from = take_on_postgresql if is_postgresql(using) else take_on_sqlite
    leases = sorted(take_from(lanes.in_order(), limit, terms, using), key=urgency)
    lanes.raise_floors(leases)
    return leases


def urgency(lease: Lease) -> Any:
    return -lease.priority, lease.eta, lease.id.int


def take_on_postgresql(lanes: Sequence[Lane], limit: int, terms: Terms, using: str) -> list[Lease]:
    parameters = {
        "queues": as_array([lane.queue for lane in lanes]),
        "priorities": as_array([lane.priority for lane in lanes]),
        "floor_etas": as_array([lane.floor_eta for lane in lanes]),
        "floor_ids": as_array([lane.floor_id for lane in lanes]),
        "limit": limit,
        "known": as_array(terms.known),
        "backend": terms.backend,
        "worker": terms.worker_id,
        "lease": terms.seconds,
    }
    return [read_lease(row) for row in fetch(statement("claim"), parameters, using)]


def take_on_sqlite(lanes: Sequence[Lane], limit: int, terms: Terms, using: str) -> list[Lease]:
    """The same rules under SQLite's write lock, which lets one claimer in at a time."""
    with transaction.atomic(using=using), frozen():
        moment = now(using)
        tasks: list[Task] = []
        for lane in lanes:
            tasks += due_in(lane, limit - len(tasks), terms, using)
        expires = moment + timedelta(seconds=terms.seconds)
        Task.objects.using(using).filter(pk__in=[task.pk for task in tasks]).update(
            status=Status.RUNNING,
            attempts=F("attempts") + CLAIM.attempts,
            locked_by=terms.worker_id,
            lock_expires_at=expires,
            moved_by=Concat(
                Value(f"{terms.worker_id}:"), Cast(F("attempts") + CLAIM.attempts, CharField()), Value(KEPT)
            ),
            started_at=Coalesce(F("started_at"), moment),
            last_attempt_at=moment,
            updated_at=moment,
        )
        leases = [leased(task, terms.worker_id, expires, moment) for task in tasks]
        write_events([event(lease, EventKind.RUNNING, terms.worker_id, moment) for lease in leases], using)
    return leases


def due_in(lane: Lane, limit: int, terms: Terms, using: str) -> list[Task]:
    due = Task.objects.using(using).due().filter(queue=lane.queue, priority=lane.priority, backend=terms.backend)
    unpaused = due.exclude(queue__in=Queue.objects.filter(paused_at__isnull=False).values("name"))
    return list(unpaused.filter(func_path__in=terms.known).order_by("eta", "id")[:limit])


def leased(task: Task, worker_id: str, expires: datetime, moment: datetime) -> Lease:
    columns = {name: getattr(task, name) for name in COLUMNS}
    return Lease(
        **{
            **columns,
            "attempts": task.attempts + CLAIM.attempts,
            "locked_by": worker_id,
            "lock_expires_at": expires,
            "started_at": task.started_at or moment,
            "last_attempt_at": moment,
        }
    )
