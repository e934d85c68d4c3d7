"""The cursor: how far one claimer has come, so that no claim reads again what it has read.

A claim reads one bounded index range for each queue, priority and lane, from the floor that the last claim reached. So
its cost depends neither on tasks scheduled for later, nor on finished ones, nor on dead index entries that an old
transaction keeps from being vacuumed. A refresh finds the ranges whose first task is due, and forgets their floors: it
finds tasks that sort below, such as a retry or an earlier eta. It runs once a second, and after a claim that came back
short. If more ranges are due than fit on a page, as with a queue for each tenant, refreshes go from page to page.

A refresh walks dead index entries. A claim reads past tasks of functions or backends that are not for this claimer. If
one of the two has become slow, it is done less often: refreshes rest, or floors are kept above all that was read in
vain. A task that sorts below a kept floor, because it was recovered or committed long after its eta, waits until then.
"""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..engines.base import Engine
from ..engines.ranges import FIRST_RANGE, ClaimRange, DuePage, LaneRange
from ..lease import Lease
from .tuning import TUNING, ClaimTuning, Clock


@dataclass(slots=True)
class Pace:
    """Earns rest by work that was slow twice in a row, since a busy machine makes anything slow once."""

    last: float = 0.0

    def rest_after(self, seconds: float, tuning: ClaimTuning) -> float:
        steadily, self.last = min(seconds, self.last), seconds
        return steadily / tuning.share_of_time if steadily > tuning.slow_seconds else 0.0


@dataclass(slots=True)
class ClaimCursor:
    clock: Clock = time.monotonic
    tuning: ClaimTuning = TUNING
    ranges: list[ClaimRange] = field(default_factory=list)
    has_lanes: bool = False  # tasks wait in lanes, and a refresh sees some of these
    page_after: tuple[str, int] = FIRST_RANGE
    refreshed_at: float = float("-inf")
    found_none_at: float = float("-inf")  # when the last refresh began that found nothing due
    came_short: bool = False  # the last claim got fewer than it wanted, so there may be other ranges
    gained: int = 0  # leases since the last refresh
    rest: float = 0.0  # how long no refresh runs
    reads_all: bool = True  # the next claim begins where the ranges do
    keep_floors_until: float = float("-inf")
    refreshing: Pace = field(default_factory=Pace)
    reading: Pace = field(default_factory=Pace)

    # When to refresh

    @property
    def is_stale(self) -> bool:
        age = self.clock() - self.refreshed_at
        remember = self.tuning.remember_lanes_seconds if self.has_lanes else self.tuning.remember_seconds
        return age >= self.rest and (self.came_short or age > remember)

    @property
    def may_refresh(self) -> bool:
        """If a refresh sees some lanes or pages only, do not rest once these are claimed."""
        sees_some = self.has_lanes or not self.sees_all_pages
        return (sees_some and self.gained > 0) or self.clock() - self.refreshed_at >= self.rest

    @property
    def sees_all_pages(self) -> bool:
        return self.page_after == FIRST_RANGE

    def note_arrival(self) -> None:
        """Refresh before the next claim if lanes are known: one that has room would hide what arrived elsewhere."""
        self.came_short = self.came_short or self.has_lanes

    # The refresh

    def next_page(self, engine: Engine, serves: Callable[[str], bool]) -> DuePage:
        """Read the next page that has ranges to serve; as a rule there is but one page."""
        began_first = self.sees_all_pages
        while True:
            page = engine.due_ranges(self.page_after, self.tuning.ranges_a_page)
            is_last = len(page.ranges) < self.tuning.ranges_a_page
            self.page_after = FIRST_RANGE if is_last else page.ranges[-1].name[:2]
            served = [each for each in page.ranges if serves(each.queue)]
            if served or (is_last and began_first):
                return page._replace(ranges=served)
            began_first = began_first or is_last

    def move_to(self, due: Sequence[ClaimRange], began: float, *, has_lanes: bool) -> None:
        """Go on with these ranges, which a refresh found that began then; and with some quiet ones."""
        if not due:
            self.found_none_at = began
        self.reads_all = began >= self.keep_floors_until
        if not self.reads_all:
            self.keep_floors(due)
        self.refreshed_at, self.came_short, self.gained = self.clock(), False, 0
        for each in due:
            each.due_at = self.refreshed_at
        self.ranges = [*due, *self.quiet_beside(due)]
        self.has_lanes = has_lanes or any(each.lane for each in self.ranges)
        rest = self.refreshing.rest_after(self.refreshed_at - began, self.tuning)
        self.rest = rest if self.ranges else 0.0  # never with nothing to fall back on

    def keep_floors(self, due: Sequence[ClaimRange]) -> None:
        known = {each.name: each for each in self.ranges}
        for each in due:
            if before := known.get(each.name):
                each.floor_eta, each.floor_id = before.floor_eta, before.floor_id

    def quiet_beside(self, due: Sequence[ClaimRange]) -> list[ClaimRange]:
        """Return other ranges, in which something was due not long ago."""
        names = {each.name for each in due}
        quiet = [each for each in self.ranges if each.name not in names]
        recent = [each for each in quiet if self.refreshed_at - each.due_at < self.tuning.quiet_seconds]
        return sorted(recent, key=lambda each: -each.due_at)[: self.tuning.quiet_ranges]

    # After a claim

    def advance(self, leases: Sequence[Lease], seconds: float, *, read_all_due: bool) -> None:
        """Begin the next claim behind these, after a claim that took `seconds`, and may have read all that was due."""
        now = self.clock()
        self.gained += len(leases)
        if self.reads_all:
            self.keep_floors_until = now + self.reading.rest_after(seconds, self.tuning)
            self.reads_all = False
        self.raise_floors(leases)
        if read_all_due and now < self.keep_floors_until:
            for each in self.ranges:
                each.skip_due()

    def raise_floors(self, leases: Sequence[Lease]) -> None:
        reached = {(lease.queue, lease.priority, lease.lane): (lease.eta, lease.id) for lease in leases}
        for each in self.ranges:
            if floor := reached.get(each.name):
                (each.floor_eta, each.floor_id), each.due_at = floor, self.clock()


@dataclass(slots=True)
class LaneRotation:
    """Goes round the lanes, of which there may be very many: each refresh hops over some of them, from a cursor on.

    A refresh also sees the lanes of what became due last. So its cost does not grow with their number, and everyone's
    turn comes.
    """

    tuning: ClaimTuning = TUNING
    cursors: dict[tuple[str, int], str] = field(default_factory=dict)
    hops: int = TUNING.fewest_hops

    def widen_for(self, limit: int) -> None:
        """Hop over as many lanes as a claim wants tasks, within bounds."""
        self.hops = max(self.tuning.fewest_hops, min(limit, self.tuning.most_hops))

    def next_lanes(self, engine: Engine) -> list[LaneRange]:
        """Return what is due among the next lanes; and from the beginning, if a cursor came round."""
        seen = engine.lane_ranges(self.cursors, self.hops, self.tuning.fresh_seconds)
        if self.cursors and self.advance(seen):
            seen += engine.lane_ranges({}, self.hops, self.tuning.fresh_seconds)
        self.advance(seen)
        return list({each.range.name: each for each in seen if each.is_due and not each.is_paused}.values())

    def advance(self, seen: Sequence[LaneRange]) -> bool:
        """Move the cursors behind what was seen. Return whether one of them came to the end."""
        last = {each.range.name[:2]: each.range.lane for each in seen if each.hop == self.hops}
        came_round = any(pair not in last for pair in self.cursors)
        self.cursors = last
        return came_round


@dataclass(slots=True)
class Contention:
    """A cap on how many claimers read the head of one range at once.

    Each claimer steps over rows that the others have locked, so with many of them a claim is mostly stepping. The head
    of a range therefore has a few places, which are locks that nobody waits for. A claimer that finds none free takes
    nothing, not even less urgent tasks, and comes back after a while. If it was turned away for some seconds, it claims
    without a place: a process that was stopped in a claim, or somebody else's lock, may keep places taken for long.
    """

    clock: Clock = time.monotonic
    tuning: ClaimTuning = TUNING
    claim_seconds: float = TUNING.usual_claim_seconds
    refusals: int = 0
    since: float = float("inf")
    insists_until: float = float("-inf")

    @property
    def places(self) -> int:
        """Return how many there are; 0 means: claim without one."""
        return 0 if self.clock() < self.insists_until else self.tuning.claimers_at_head

    def note_claim(self, seconds: float) -> None:
        self.claim_seconds, self.refusals, self.since = seconds, 0, float("inf")

    def note_refusal(self) -> float:
        """Return the seconds until the next try."""
        now, tuning = self.clock(), self.tuning
        self.since = min(self.since, now)
        if now - self.since > tuning.contention_patience:
            self.insists_until = now + tuning.insist_seconds
            return 0.0
        wait = min(tuning.longest_contention_wait, self.claim_seconds * tuning.claims_to_wait * 2**self.refusals)
        self.refusals += 1
        return float(wait * random.uniform(1.0, 1.0 + tuning.contention_spread))  # noqa: S311 - spreads load
