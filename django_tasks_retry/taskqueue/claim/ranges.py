"""Ranges that claims read, as plain values; and fair share: lanes of one priority share a claim by weight, in turn.

Nothing here reads the database: plans are made of values, and claims follow them.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from ...rules.lanes.limits import HEAVIEST
from ..database import as_moment
from ..lease import EARLIEST, Lease

TRUE = (True, "t")  # the driver returns the server's text if it could not read the row
FIRST_RANGE = ("", 0)  # which sorts before all: no queue is without a name
Cursors: TypeAlias = Mapping[tuple[str, int], str]
"""The last lane that was seen, by queue and priority."""


@dataclass(slots=True)
class ClaimRange:
    """Tasks of one queue, priority and lane, in the order of their eta; read from its floor on."""

    queue: str
    priority: int
    floor_eta: Any  # a datetime, or the server's own text if Python knows no such time
    seen_at: datetime  # by the queue's clock, when the refresh saw it
    floor_id: UUID = EARLIEST
    due_at: float = 0.0  # by the claimer's clock, when something was last due in it
    lane: str = ""
    weight: float = 1.0
    is_limited: bool = False  # claimed from only through the limiter
    quota: int | None = None  # how many one statement may take; None means: as many as it wants
    only: UUID = EARLIEST  # the one task that may be taken; the earliest id means: any

    @property
    def name(self) -> tuple[str, int, str]:
        return self.queue, self.priority, self.lane

    def skip_due(self) -> None:
        """Begin behind all tasks that were due at the refresh, for they have been read."""
        if not isinstance(self.floor_eta, datetime) or self.floor_eta < self.seen_at:
            self.floor_eta, self.floor_id = self.seen_at, EARLIEST


class DuePage(NamedTuple):
    """Ranges without a lane whose first task is due; whether tasks wait in lanes; queues and functions with a row."""

    ranges: list[ClaimRange]
    has_lanes: bool
    limited: frozenset[str]


class LaneRange(NamedTuple):
    """A range of a lane, due or not. `hop` counts from the cursor, from 1; 0 if it was found otherwise."""

    range: ClaimRange
    hop: int
    is_due: bool
    has_row: bool
    is_paused: bool
    weight: float | None


def read_lane_range(row: Sequence[Any]) -> LaneRange:
    queue, priority, lane, eta, hop, now, is_due, has_row, is_paused, weight = row
    found = ClaimRange(queue, int(priority), eta, as_moment(now), lane=lane)
    return LaneRange(found, int(hop), is_due in TRUE, has_row in TRUE, is_paused in TRUE, sound_weight(weight))


def sound_weight(weight: Any) -> float | None:
    """Return a weight as it is stored; None if it is none by which shares can be computed."""
    try:
        number = float(weight)
    except (TypeError, ValueError):
        return None
    return number if 1 / HEAVIEST <= number <= HEAVIEST else None


def quotas(weights: Sequence[float], limit: int) -> list[int]:
    """Return how many of `limit` each of several lanes may take at once. A lone lane takes them all."""
    total = sum(weights)
    return [max(1, math.ceil(limit * weight / total)) for weight in weights]


class Part(NamedTuple):
    """Ranges of one priority that one statement, or one passage through the limiter, claims from."""

    ranges: list[ClaimRange]
    is_limited: bool
    function: str | None = None
    """The one limited function that is claimed for."""

    def quota(self, limit: int) -> int:
        return min(limit, sum(limit if each.quota is None else each.quota for each in self.ranges))

    def is_used_up(self, leases: Iterable[Lease]) -> bool:
        """Return whether a range got all of its share, so that it may have more."""
        taken = Counter((lease.queue, lease.priority, lease.lane) for lease in leases)
        return any(each.quota is not None and taken[each.name] >= each.quota for each in self.ranges)


def plan(
    level: Sequence[ClaimRange],
    limit: int,
    *,
    is_limited: Callable[[ClaimRange], object],
    functions: Sequence[str] = (),
    by_weight: bool = True,
) -> list[Part]:
    """Divide a claim of `limit` tasks among ranges of one priority, in the order in which they are due their turn.

    One statement reads ranges with a lane, or ranges without. Limited `functions` come last, each from all ranges.
    """
    level = shared(level, limit) if by_weight else list(level)
    kinds: dict[str, list[ClaimRange]] = {}
    for each in level:
        kinds.setdefault("limited" if is_limited(each) else "lanes" if each.lane else "plain", []).append(each)
    parts = [Part(ranges, is_limited=kind == "limited") for kind, ranges in kinds.items()]
    return parts + [Part(list(level), is_limited=True, function=function) for function in functions]


def shared(level: Sequence[ClaimRange], limit: int) -> list[ClaimRange]:
    """Give each range its quota. A lone lane, and queues without lanes among themselves, take what they can."""
    if len({each.lane for each in level}) == 1:
        return list(level)
    shares = quotas([each.weight for each in level], limit)
    return [replace(each, quota=share) for each, share in zip(level, shares, strict=True)]


def urgency(found: ClaimRange, aging: float | None) -> int:
    """Return its priority; one more for each `aging` that its first task has waited."""
    if aging is None or not isinstance(found.floor_eta, datetime):
        return found.priority
    return found.priority + int((found.seen_at - found.floor_eta).total_seconds() / aging)


@dataclass(slots=True)
class FairShare:
    """The leases that each lane got so far, divided by its weight. A new lane begins with the share of the others."""

    served: dict[str, float] = field(default_factory=dict)

    def open(self, lanes: Iterable[str]) -> None:
        """Keep accounts for these lanes and no others."""
        known = {lane: self.served[lane] for lane in lanes if lane in self.served}
        start = min(known.values(), default=0.0)
        self.served = {lane: known.get(lane, start) - start for lane in lanes}

    def in_order(self, ranges: Sequence[ClaimRange], aging: float | None = None) -> list[ClaimRange]:
        """Sort by priority, then by who got least; others of one priority in any order."""
        mixed = random.sample(ranges, len(ranges))
        return sorted(mixed, key=lambda each: (-urgency(each, aging), self.served.get(each.lane, 0.0)))

    def levels(self, ranges: Sequence[ClaimRange], aging: float | None) -> Iterator[list[ClaimRange]]:
        """Group them by priority, the highest first."""
        for _, level in groupby(self.in_order(ranges, aging), key=lambda each: urgency(each, aging)):
            yield list(level)

    def charge(self, leases: Iterable[Lease], ranges: Iterable[ClaimRange]) -> None:
        """Enter what was claimed from these ranges."""
        weights = {each.lane: each.weight for each in ranges}
        for lane, count in Counter(lease.lane for lease in leases).items():
            if lane in self.served:
                self.served[lane] += count / weights.get(lane, 1.0)
