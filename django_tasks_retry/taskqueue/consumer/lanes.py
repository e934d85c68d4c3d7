"""Lanes: what one claimer remembers between claims.

A *lane* is a (queue, priority) pair in use. Each claim reads one bounded index range per lane, from the floor that the
last claim reached, so that its cost depends neither on tasks scheduled for later, nor on finished ones, nor on dead
index entries that an old transaction keeps from being vacuumed. Lanes are looked up afresh once a second, and whenever
a claim comes back short; tasks that sort below a floor (a retry, an earlier eta) are found then. A few lanes in which
nothing is due are remembered for a while, so that the next arrival in them is claimed without another look. Looking
does walk dead index entries, so where that has become slow it is done less often. Where more lanes are due than fit
on a page, as with a queue for each tenant, claims go from page to page.

A lane may hold tasks that are not for this claimer: of functions that it does not know, or does not claim for, or of
another backend. Claims read past them. Where that has become slow, the floors are kept through the next looks, above
all that was read in vain, so that the claimer spends a twentieth of its time on reading it again. What sorts below is
found by then: a task that was recovered, or was committed long after its eta, waits for twenty times what one such
reading takes (0.15 s for 300,000 tasks), others do not wait.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from ...rules.queues import serves
from ..lease import EARLIEST, Lease

REMEMBER_SECONDS = 1.0
QUIET_SECONDS = 60.0
QUIET_LANES = 16
LANES_A_PAGE = 128
FIRST_LANE = ("", 0)  # which sorts before all: no queue is without a name
SHARE_OF_TIME = 0.05  # that a claimer may spend on looking where it is slow


@dataclass(slots=True)
class Lane:
    queue: str
    priority: int
    floor_eta: Any  # a datetime, or the server's own text where Python knows no such time
    seen_at: datetime  # by the queue's clock, when it was looked up
    floor_id: UUID = EARLIEST
    due_at: float = field(default_factory=time.monotonic)

    @property
    def name(self) -> tuple[str, int]:
        return self.queue, self.priority

    def pass_over(self) -> None:
        """Begin behind all that was due when the lane was looked up, for it has been read."""
        if not isinstance(self.floor_eta, datetime) or self.floor_eta < self.seen_at:
            self.floor_eta, self.floor_id = self.seen_at, EARLIEST


class KnowsLanes(Protocol):
    def due_lanes(self, after: tuple[str, int] = FIRST_LANE) -> list[Lane]: ...


@dataclass(slots=True)
class Lanes:
    queues: Sequence[str] = ("*",)
    exclude: Sequence[str] = ()
    paths: Sequence[str] | None = None  # functions to claim for; None means all that this process knows
    lanes: list[Lane] = field(default_factory=list)
    looked_at: float = float("-inf")
    spent: float = 0.0
    rest: float = 0.0
    came_short: bool = False
    slow: float = 0.01  # seconds that looking, or reading a lane from its beginning, may take before it needs rest
    reads_all: bool = True  # the next claim begins where the lanes do
    read_seconds: float = 0.0
    keep_floors_until: float = float("-inf")
    after: tuple[str, int] = FIRST_LANE  # where the next page begins

    def serves(self, queue: str) -> bool:
        return serves(queue, self.queues, self.exclude)

    def look(self, engine: KnowsLanes) -> bool:
        """Find the lanes whose first task is due, and forget their floors, unless they rest. Whether there are any."""
        began = time.monotonic()
        due = self.next_page(engine)
        self.reads_all = began >= self.keep_floors_until
        if not self.reads_all:
            self.keep_floors(due)
        self.looked_at, self.came_short = time.monotonic(), False
        self.lanes = due + self.quiet_beside(due)
        # Twice in a row, since a busy machine makes anything slow once; and never with nothing to fall back on.
        spent = self.looked_at - began
        steadily, self.spent = min(spent, self.spent), spent
        self.rest = steadily / SHARE_OF_TIME if steadily > self.slow and self.lanes else 0.0
        return bool(due)

    def next_page(self, engine: KnowsLanes) -> list[Lane]:
        """The lanes on the next page that has any to serve; as a rule there is but one page."""
        began_first = self.after == FIRST_LANE
        while True:
            page = engine.due_lanes(self.after)
            is_last = len(page) < LANES_A_PAGE
            self.after = FIRST_LANE if is_last else page[-1].name
            served = [lane for lane in page if self.serves(lane.queue)]
            if served or (is_last and began_first):
                return served
            began_first = began_first or is_last

    def keep_floors(self, due: Sequence[Lane]) -> None:
        known = {lane.name: lane for lane in self.lanes}
        for lane in due:
            if before := known.get(lane.name):
                lane.floor_eta, lane.floor_id = before.floor_eta, before.floor_id

    def quiet_beside(self, due: Sequence[Lane]) -> list[Lane]:
        """Other lanes, in which something was due not long ago."""
        names = {lane.name for lane in due}
        quiet = [lane for lane in self.lanes if lane.name not in names]
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

    def note_claim(self, leases: Sequence[Lease], seconds: float, *, came_to_the_end: bool) -> None:
        """Where the next claim begins, after one that took `seconds`, and whether it read all that was due."""
        now = time.monotonic()
        if self.reads_all:
            steadily, self.read_seconds = min(seconds, self.read_seconds), seconds
            self.keep_floors_until = now + steadily / SHARE_OF_TIME if steadily > self.slow else now
            self.reads_all = False
        self.raise_floors(leases)
        if came_to_the_end and now < self.keep_floors_until:
            for lane in self.lanes:
                lane.pass_over()

    def raise_floors(self, leases: Sequence[Lease]) -> None:
        reached = {(lease.queue, lease.priority): (lease.eta, lease.id) for lease in leases}
        for lane in self.lanes:
            if floor := reached.get(lane.name):
                (lane.floor_eta, lane.floor_id), lane.due_at = floor, time.monotonic()
