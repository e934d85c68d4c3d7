"""Fair share: lanes of one priority share a claim by weight, in turn.

Nothing here reads the database: plans are made of values, and claims follow them.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import NamedTuple

from ..engines.ranges import ClaimRange
from ..lease import Lease


def quotas(weights: Sequence[float], limit: int) -> list[int]:
    """Return how many of `limit` each of several lanes may take at once. A lone lane takes them all."""
    total = sum(weights)
    return [max(1, math.ceil(limit * weight / total)) for weight in weights]


class Part(NamedTuple):
    """Ranges of one priority that one statement, or one passage through the limiter, claims from."""

    ranges: list[ClaimRange]
    is_limited: bool
    function: str | None = None  # the one limited function that is claimed for

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
    return [each.with_quota(share) for each, share in zip(level, shares, strict=True)]


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
