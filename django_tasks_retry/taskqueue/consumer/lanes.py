"""Lanes: what one claimer remembers between claims.

A *lane* is a queue, a priority and a key in use; tasks without a lane of their own have no key. Each claim reads one
bounded index range per lane, from the floor that the last claim reached, so that its cost depends neither on tasks
scheduled for later, nor on finished ones, nor on dead index entries that an old transaction keeps from being vacuumed.
Lanes are looked up afresh once a second, and whenever
a claim comes back short; tasks that sort below a floor (a retry, an earlier eta) are found then. A few lanes in which
nothing is due are remembered for a while, so that the next arrival in them is claimed without another look. Looking
does walk dead index entries, so where that has become slow it is done less often. Where more lanes are due than fit
on a page, as with a queue for each tenant, claims go from page to page.

A lane may hold tasks that are not for this claimer: of functions that it does not know, or does not claim for, or of
another backend. Claims read past them. Where that has become slow, the floors are kept through the next looks, above
all that was read in vain, so that the claimer spends a twentieth of its time on reading it again. What sorts below is
found by then: a task that was recovered, or was committed long after its eta, waits for twenty times what one such
reading takes (0.15 s for 300,000 tasks), others do not wait.

Of lanes with a key there may be very many. A look hops over some of them, from a cursor that goes round, and sees those
of what became due last; so its cost does not grow with their number, and everyone's turn comes.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol, TypeAlias
from uuid import UUID

from ...rules.lanes.shares import Accounts
from ...rules.queues import serves
from ..database import as_moment
from ..lanes.limits import has_wholes, limit_of
from ..lanes.states import make
from ..lease import EARLIEST, Lease
from .crowd import Crowd

REMEMBER_SECONDS = 1.0
REMEMBER_KEYED_SECONDS = 0.25
QUIET_SECONDS = 60.0
QUIET_LANES = 16
LANES_A_PAGE = 128
FIRST_LANE = ("", 0)  # which sorts before all: no queue is without a name
HOPS, MOST_HOPS = 64, 256  # of lanes with a key, in one look
FRESH_SECONDS = 5.0
CROWD = "crowd:"  # the label of what is closed to a claimer that was turned away
SHARE_OF_TIME = 0.05  # that a claimer may spend on looking where it is slow

Cursors: TypeAlias = Mapping[tuple[str, int], str]


@dataclass(slots=True)
class Lane:
    queue: str
    priority: int
    floor_eta: Any  # a datetime, or the server's own text where Python knows no such time
    seen_at: datetime  # by the queue's clock, when it was looked up
    floor_id: UUID = EARLIEST
    due_at: float = field(default_factory=time.monotonic)
    key: str = ""
    weight: float = 1.0
    is_limited: bool = False  # claimed from only by who holds its row
    quota: int | None = None  # how many the next claim may take; None means: as many as it wants
    only: UUID = EARLIEST  # the one task that may be taken; the earliest id means: any

    @property
    def name(self) -> tuple[str, int, str]:
        return self.queue, self.priority, self.key

    def pass_over(self) -> None:
        """Begin behind all that was due when the lane was looked up, for it has been read."""
        if not isinstance(self.floor_eta, datetime) or self.floor_eta < self.seen_at:
            self.floor_eta, self.floor_id = self.seen_at, EARLIEST


class DueLanes(NamedTuple):
    """Lanes without a key whose first task is due; whether there are others; which queues and functions have rows."""

    lanes: list[Lane]
    has_keyed: bool
    states: frozenset[str]


class KeyedLane(NamedTuple):
    """A lane in which tasks wait, due or not. `hop` counts from the cursor, from 1; 0 where it was found otherwise."""

    lane: Lane
    hop: int
    is_due: bool
    has_row: bool
    is_paused: bool
    weight: float | None


def read_keyed(row: Sequence[Any]) -> KeyedLane:
    queue, priority, key, eta, hop, now, is_due, has_row, is_paused, weight = row
    lane = Lane(queue, int(priority), eta, as_moment(now), key=key)
    flags = is_true(is_due), is_true(has_row), is_true(is_paused)
    return KeyedLane(lane, int(hop), *flags, None if weight is None else float(weight))


def is_true(value: Any) -> bool:
    """What the driver could not read came as the server's text."""
    return value in (True, "t")


class KnowsLanes(Protocol):
    using: str

    def due_lanes(self, after: tuple[str, int] = FIRST_LANE) -> DueLanes: ...

    def keyed_lanes(self, cursors: Cursors, hops: int) -> list[KeyedLane]: ...


@dataclass(slots=True)
class Lanes:
    queues: Sequence[str] = ("*",)
    exclude: Sequence[str] = ()
    paths: Sequence[str] | None = None  # functions to claim for; None means all that this process knows
    lanes: list[Lane] = field(default_factory=list)
    looked_at: float = float("-inf")
    found_none_at: float = float("-inf")  # when the last look began that found nothing due
    spent: float = 0.0
    rest: float = 0.0
    came_short: bool = False
    gained: int = 0  # leases since the last look
    slow: float = 0.01  # seconds that looking, or reading a lane from its beginning, may take before it needs rest
    reads_all: bool = True  # the next claim begins where the lanes do
    read_seconds: float = 0.0
    keep_floors_until: float = float("-inf")
    after: tuple[str, int] = FIRST_LANE  # where the next page begins
    patience: float | None = None
    hops: int = HOPS
    has_keyed: bool = False
    states: frozenset[str] = frozenset()  # queues and functions with a row, by their labels
    cursors: dict[tuple[str, int], str] = field(default_factory=dict)
    accounts: Accounts = field(default_factory=Accounts)
    closed_until: dict[str, float] = field(default_factory=dict)  # of what was full, by label
    crowd: Crowd = field(default_factory=Crowd)
    rows: set[str] = field(default_factory=set)  # labels that were seen to have a row; forgotten by each look

    def serves(self, queue: str) -> bool:
        return serves(queue, self.queues, self.exclude)

    def look(self, engine: KnowsLanes, backend: str = "default") -> bool:
        """Find the lanes whose first task is due, and forget their floors, unless they rest. Whether there are any."""
        began = time.monotonic()
        plain = self.next_page(engine)
        keyed = self.look_for_keyed(engine, backend) if self.has_keyed else []
        due = plain + [lane for lane in keyed if self.serves(lane.queue)]
        if not due:
            self.found_none_at = began
        self.reads_all = began >= self.keep_floors_until
        if not self.reads_all:
            self.keep_floors(due)
        self.looked_at, self.came_short, self.gained = time.monotonic(), False, 0
        self.lanes = due + self.quiet_beside(due)
        self.has_keyed = self.has_keyed or any(lane.key for lane in self.lanes)
        # Twice in a row, since a busy machine makes anything slow once; and never with nothing to fall back on.
        spent = self.looked_at - began
        steadily, self.spent = min(spent, self.spent), spent
        self.rest = steadily / SHARE_OF_TIME if steadily > self.slow and self.lanes else 0.0
        self.rows.clear()
        if self.has_keyed:
            self.rows.update(lane.key for lane in self.lanes if lane.is_limited)
            self.accounts.open({lane.key for lane in self.lanes})
        return bool(due)

    def next_page(self, engine: KnowsLanes) -> list[Lane]:
        """The lanes on the next page that has any to serve; as a rule there is but one page."""
        began_first = self.after == FIRST_LANE
        while True:
            page, self.has_keyed, self.states = engine.due_lanes(self.after)
            is_last = len(page) < LANES_A_PAGE
            self.after = FIRST_LANE if is_last else (page[-1].queue, page[-1].priority)
            served = [lane for lane in page if self.serves(lane.queue)]
            if served or (is_last and began_first):
                return served
            began_first = began_first or is_last

    def look_for_keyed(self, engine: KnowsLanes, backend: str) -> list[Lane]:
        """The due lanes among the next ones; and from the beginning, where the cursor came round."""
        seen = engine.keyed_lanes(self.cursors, self.hops)
        if self.cursors and self.advance(seen):
            seen += engine.keyed_lanes({}, self.hops)
        self.advance(seen)
        found = {each.lane.name: each for each in seen if each.is_due and not each.is_paused}
        lanes = [self.as_known(each, backend) for each in found.values()]
        without_row = {each.lane.key for each in found.values() if each.lane.is_limited and not each.has_row}
        if without_row:
            make(without_row, engine.using)
        return lanes

    def advance(self, seen: Sequence[KeyedLane]) -> bool:
        """Move the cursors behind what was seen. Whether one of them came to the end."""
        last = {(each.lane.queue, each.lane.priority): each.lane.key for each in seen if each.hop == self.hops}
        came_round = any(pair not in last for pair in self.cursors)
        self.cursors = last
        return came_round

    def as_known(self, seen: KeyedLane, backend: str) -> Lane:
        limit, lane = limit_of(seen.lane.key, backend), seen.lane
        lane.weight = seen.weight or limit.weight
        lane.is_limited = seen.has_row or limit.is_limited
        return lane

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
        remember = REMEMBER_KEYED_SECONDS if self.has_keyed else REMEMBER_SECONDS
        return age >= self.rest and (self.came_short or age > remember)

    def may_look(self) -> bool:
        """Lanes with a key run dry one by one: who took all that the last look had found would rest for nothing."""
        return (self.has_keyed and self.gained > 0) or time.monotonic() - self.looked_at >= self.rest

    def in_order(self) -> list[Lane]:
        """Higher priorities first; lanes of one priority take turns: those first that got least, by weight."""
        random.shuffle(self.lanes)
        self.lanes.sort(key=lambda lane: (-self.rank(lane), self.accounts.balance(lane.key)))
        return self.lanes

    def rank(self, lane: Lane) -> int:
        """Its priority; one more for each `patience` that its first task has waited."""
        if self.patience is None or not isinstance(lane.floor_eta, datetime):
            return lane.priority
        return lane.priority + int((lane.seen_at - lane.floor_eta).total_seconds() / self.patience)

    def note_claim(self, leases: Sequence[Lease], seconds: float, *, came_to_the_end: bool) -> None:
        """Where the next claim begins, after one that took `seconds`, and whether it read all that was due."""
        now = time.monotonic()
        self.crowd.note_claim(seconds)
        self.gained += len(leases)
        if self.reads_all:
            steadily, self.read_seconds = min(seconds, self.read_seconds), seconds
            self.keep_floors_until = now + steadily / SHARE_OF_TIME if steadily > self.slow else now
            self.reads_all = False
        self.raise_floors(leases)
        if came_to_the_end and now < self.keep_floors_until:
            for lane in self.lanes:
                lane.pass_over()

    def note_turned_away(self, leases: Sequence[Lease]) -> None:
        """After a claim that found all places taken, and these before it."""
        self.raise_floors(leases)
        self.close(CROWD, self.crowd.turned_away())

    @property
    def is_turned_away(self) -> bool:
        return self.is_closed(CROWD)

    def raise_floors(self, leases: Sequence[Lease]) -> None:
        reached = {(lease.queue, lease.priority, lease.lane): (lease.eta, lease.id) for lease in leases}
        for lane in self.lanes:
            if floor := reached.get(lane.name):
                (lane.floor_eta, lane.floor_id), lane.due_at = floor, time.monotonic()

    # What is limited, and what is full

    def is_gated(self, label: str, backend: str) -> bool:
        """Whether this queue or function, as a whole, is claimed from only by who holds its row."""
        return label in self.states or limit_of(label, backend).is_limited

    def gated_functions(self, known: Sequence[str], backend: str) -> list[str]:
        if not self.states and not has_wholes(backend):
            return []
        return [path for path in known if self.is_gated(f"function:{path}", backend)]

    def has_gates(self, backend: str) -> bool:
        """Whether anything but lanes without a key may have to be claimed from."""
        return self.has_keyed or bool(self.states) or has_wholes(backend)

    def close(self, label: str, seconds: float) -> None:
        """Nothing of this lane can start for so long, as far as is known."""
        self.closed_until[label] = time.monotonic() + seconds

    def reopen(self, *labels: str) -> bool:
        """Something of these has ended. Whether one of them was closed."""
        closed = self.closed_until.keys() & set(labels)
        for label in closed:
            del self.closed_until[label]
        return bool(closed)

    def is_closed(self, label: str) -> bool:
        return self.closed_until.get(label, 0.0) > time.monotonic()

    @property
    def opens_at(self) -> float:
        """When something that was held back may start, by the monotonic clock."""
        return min(self.closed_until.values(), default=float("inf"))

    def forget_opened(self) -> None:
        """Before a claim, never after: what opens while it is under way was passed over by it."""
        now = time.monotonic()
        self.closed_until = {label: until for label, until in self.closed_until.items() if until > now}

    @property
    def wants_slots(self) -> bool:
        """Whether tasks may be due that must start at once when they are claimed."""
        return any(lane.is_limited and not self.is_closed(lane.key) for lane in self.lanes)
