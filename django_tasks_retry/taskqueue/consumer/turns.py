"""Turns: one claim in parts, priority by priority, so that lanes share it and limits hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from ...rules.lanes.shares import quotas
from ..engines import Engine
from ..engines.base import Terms
from ..lanes.gate import Gate
from ..lease import Claimed
from .lanes import Lane, Lanes


class Part(NamedTuple):
    """Lanes of one priority that one statement, or one passage through the gate, claims from."""

    lanes: list[Lane]
    is_gated: bool
    function: str | None = None


class Turns:
    """One claim from lanes of which some have a key or a limit. What must start at once is bounded by `at_once`."""

    def __init__(self, lanes: Lanes, limit: int, at_once: int, terms: Terms, engine: Engine) -> None:
        self.lanes, self.limit, self.at_once = lanes, limit, at_once
        self.functions = lanes.gated_functions(terms.known, terms.backend)
        ungated = set(self.functions)
        self.terms = replace(terms, known=[path for path in terms.known if path not in ungated])
        self.engine, self.gate = engine, Gate(lanes, self.terms, engine)
        self.taken, self.limited, self.was_cut, self.turned_away = Claimed(), 0, False, False

    def claim(self) -> Claimed:
        for _, group in groupby(self.lanes.in_order(), key=self.lanes.rank):
            level = list(group)
            self.share(level)
            self.claim_from(level)
            if self.was_cut and not self.is_over:
                # Others did not take their share: it goes to who could use it, before any lower priority.
                for lane in level:
                    lane.quota = None
                self.claim_from(level)
            if self.is_over:
                break
        return replace(self.taken, turned_away=self.turned_away)

    @property
    def is_over(self) -> bool:
        """Who is turned away takes nothing that is less urgent."""
        return self.turned_away or len(self.taken) >= self.limit

    def claim_from(self, level: Sequence[Lane]) -> None:
        self.was_cut = False
        for part in self.parts(level):
            if not self.is_over:
                self.add(part)

    def parts(self, level: Sequence[Lane]) -> Iterator[Part]:
        """Of one priority, in the order in which they are due their turn."""
        gated = [lane for lane in level if self.is_limited(lane)]
        free = [lane for lane in level if not self.is_limited(lane)]
        found = [
            Part([lane for lane in free if not lane.key], is_gated=False),
            Part([lane for lane in free if lane.key], is_gated=False),
            Part(gated, is_gated=True),
        ]
        places = {id(lane): place for place, lane in enumerate(level)}
        yield from sorted((part for part in found if part.lanes), key=lambda part: places[id(part.lanes[0])])
        for function in self.functions:
            yield Part(list(level), is_gated=True, function=function)

    def is_limited(self, lane: Lane) -> bool:
        return lane.is_limited or self.lanes.is_gated(f"queue:{lane.queue}", self.terms.backend)

    def share(self, level: Sequence[Lane]) -> None:
        """Quotas by weight. A lone lane, and queues without keys among themselves, take what they can."""
        shares = quotas([lane.weight for lane in level], self.limit - len(self.taken))
        alone = len({lane.key for lane in level}) == 1
        for lane, share in zip(level, shares, strict=True):
            lane.quota = None if alone else share

    def add(self, part: Part) -> None:
        left = self.limit - len(self.taken)
        shares = {lane.name: lane.quota for lane in part.lanes if lane.quota is not None}
        if part.is_gated:
            claimed = self.gate.claim(part.lanes, min(left, self.at_once - self.limited), part.function)
            self.limited += len(claimed)
        else:
            claimed = self.engine.claim(part.lanes, min(left, quota_of(part.lanes, left)), self.terms)
        self.turned_away = claimed.turned_away
        self.taken.leases.extend(claimed.leases)
        self.taken.unreadable.extend(claimed.unreadable)
        reached = Counter((lease.queue, lease.priority, lease.lane) for lease in claimed.everything)
        self.was_cut = self.was_cut or any(reached[name] >= share for name, share in shares.items())
        taken = Counter(lease.lane for lease in claimed.everything)
        self.lanes.accounts.charge(taken, {lane.key: lane.weight for lane in part.lanes})


def quota_of(lanes: Sequence[Lane], limit: int) -> int:
    return sum(limit if lane.quota is None else lane.quota for lane in lanes)
