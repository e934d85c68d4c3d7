"""Lanes: what one claimer remembers between claims.

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
from datetime import datetime
from typing import Protocol
from uuid import UUID

from ..rules.queues import serves
from .lease import Lease

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


class KnowsLanes(Protocol):
    def due_lanes(self) -> list[Lane]: ...


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
    slow: float = 0.01  # seconds that looking may take before it needs rest

    def serves(self, queue: str) -> bool:
        return serves(queue, self.queues, self.exclude)

    def look(self, engine: KnowsLanes) -> bool:
        """Find the lanes whose first task is due, and forget their floors. Whether there are any."""
        began = time.monotonic()
        due = [lane for lane in engine.due_lanes() if self.serves(lane.queue)]
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
