"""The gate: claims from lanes that are limited, under the locks of their rows, and never more than there is room for.

A lease is the permit: it is counted, in a statement after the lock was granted, and freed by whatever ends it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from django.db import transaction

from ...models import LaneState
from ...rules.lanes import window
from ...rules.lanes.limits import Limit
from ..lease import EARLIEST, Claimed
from .limits import decided, limit_of
from .order import head_of
from .states import count_running, hold, make

if TYPE_CHECKING:
    from ..consumer.lanes import Lane, Lanes
    from ..engines.base import Engine, Terms

FULL_SECONDS = 0.25
BUSY_SECONDS = 0.02
PAUSED_SECONDS = 1.0
LONGEST_WAIT = 5.0
MOST_LANES, FEWEST_LANES = 128, 16
"""That one passage holds: twice as many as it may claim, since some will be full."""


@dataclass(slots=True)
class Room:
    """How many more may start in one lane, queue or function."""

    state: LaneState
    limit: Limit
    left: int
    is_bounded: bool = False  # by the lane itself, and not by what the claimer asks for

    @property
    def closed_for(self) -> float:
        """Where none may start: for how long, as far as is known."""
        if self.state.paused_at is not None:
            return PAUSED_SECONDS
        if self.limit.starts is None:
            return FULL_SECONDS
        opens_in = window.opens_in(self.state.recent, self.limit.starts, self.limit.per, self.state.held_at.timestamp())
        return min(LONGEST_WAIT, opens_in or FULL_SECONDS)

    def note(self, taken: int, moment: datetime) -> None:
        """Count starts of a lane with a rate. `moment` is not before any of them."""
        if taken and self.limit.starts is not None:
            self.state.recent = window.with_starts(self.state.recent, taken, self.limit.per, moment.timestamp())
            self.state.save(update_fields=["recent"])


def measure(state: LaneState, running: int, most: int, backend: str) -> Room:
    """The room that a held lane has, at most `most`."""
    limit, time = decided(state, limit_of(state.label, backend)), state.held_at.timestamp()
    if state.paused_at is not None:
        return Room(state, limit, 0, is_bounded=True)
    most_running = 1 if state.probing_since else limit.most_running
    rooms = [most]
    if most_running is not None:
        rooms.append(max(0, most_running - running))
    if limit.starts is not None:
        rooms.append(window.room(state.recent, limit.starts, limit.per, time))
    return Room(state, limit, min(rooms), is_bounded=min(rooms) < most)


@dataclass(slots=True)
class Gate:
    lanes: Lanes
    terms: Terms
    engine: Engine

    def claim(self, wanted: Sequence[Lane], limit: int, function: str | None = None) -> Claimed:
        """Up to `limit` leases from these lanes of one priority; of one limited function, where it is given."""
        wanted = [lane for lane in wanted if not self.is_closed(lane)][: most_held(limit)]
        if not wanted or limit < 1 or (function and self.lanes.is_closed(f"function:{function}")):
            return Claimed()
        labels = {label for lane in wanted for label in self.labels(lane)}
        labels |= {f"function:{function}"} if function else set()
        using = self.engine.using
        with transaction.atomic(using=using):
            rooms = self.rooms(labels, limit)
            claimed = self.take(wanted, limit, rooms, function)
        for label, room in rooms.items():
            if room.is_bounded and room.left <= 0:
                self.lanes.close(label, max(BUSY_SECONDS, room.closed_for))
        self.lanes.rows |= rooms.keys()
        if missing := labels - self.lanes.rows:  # else somebody holds it
            make(missing, using)
            self.lanes.rows |= missing
        return claimed

    def labels(self, lane: Lane) -> list[str]:
        """Whose rows must be held to claim from this lane."""
        named = [lane.key] if lane.key and lane.is_limited else []
        queue = f"queue:{lane.queue}"
        return [*named, queue] if self.is_gated(queue) else named

    def is_closed(self, lane: Lane) -> bool:
        return any(self.lanes.is_closed(label) for label in self.labels(lane))

    def rooms(self, labels: set[str], most: int) -> dict[str, Room]:
        """Of what is not held by somebody else."""
        held, using = hold(labels, self.engine.using), self.engine.using
        for label in labels - held.keys():
            self.lanes.close(label, BUSY_SECONDS)
        running = count_running(held.keys(), using)
        return {label: measure(state, running[label], most, self.terms.backend) for label, state in held.items()}

    def take(self, wanted: Sequence[Lane], limit: int, rooms: dict[str, Room], function: str | None) -> Claimed:
        """One statement for each queue: the room of a whole queue or function bounds all lanes of it together."""
        held = [held_label(room) for room in rooms.values()]
        known = [function] if function else self.terms.known
        terms = replace(self.terms, known=known, held=held, places=0)  # who holds a lane's row has its place
        taken = Claimed()
        for queue, keyed in dict.fromkeys((lane.queue, bool(lane.key)) for lane in wanted):
            of_kind = [lane for lane in wanted if (lane.queue, bool(lane.key)) == (queue, keyed)]
            whole = [label for label in (f"queue:{queue}", f"function:{function}") if self.needs(label, function)]
            most = min([limit - len(taken), *(rooms[each].left if each in rooms else 0 for each in whole)])
            lanes = self.open_lanes(of_kind, rooms) if most > 0 else []
            if lanes:
                claimed = self.engine.claim(lanes, most, terms)
                note_taken(claimed, rooms)
                taken.leases.extend(claimed.leases)
                taken.unreadable.extend(claimed.unreadable)
        return taken

    def needs(self, label: str, function: str | None) -> bool:
        return label == f"function:{function}" if function and label.startswith("function:") else self.is_gated(label)

    def is_gated(self, label: str) -> bool:
        return self.lanes.is_gated(label, self.terms.backend)

    def open_lanes(self, lanes: Sequence[Lane], rooms: dict[str, Room]) -> list[Lane]:
        """Those with room of their own, each name once: its quota counts for one statement."""
        found: dict[str, Lane] = {}
        for lane in lanes:
            name = lane.key if lane.is_limited else f"{lane.name}"
            if name not in found and (not lane.is_limited or self.opens(lane, rooms.get(lane.key))):
                found[name] = lane
        return list(found.values())

    def opens(self, lane: Lane, room: Room | None) -> bool:
        """Whether something may start in it, and how many, or which one."""
        if room is None or room.left < 1:
            return False
        lane.quota = room.left if lane.quota is None else min(lane.quota, room.left)
        lane.only = EARLIEST
        if room.limit.order == "strict":
            head = head_of(lane, self.engine.using)
            lane.only = head or EARLIEST
            return head is not None
        return True


def note_taken(claimed: Claimed, rooms: dict[str, Room]) -> None:
    """What was claimed takes room from its lane, its queue and its function."""
    taken: Counter[str] = Counter()
    for lease in claimed.everything:
        taken.update([lease.lane, f"queue:{lease.queue}", f"function:{lease.func_path}"])
    moment = max((lease.last_attempt_at for lease in claimed.everything), default=None)
    for label, room in rooms.items():
        room.left -= taken[label]
        if moment is not None:
            room.note(taken[label], moment)


def most_held(limit: int) -> int:
    """Not more lanes than the claim can use: what one holds, others pass over."""
    return max(FEWEST_LANES, min(2 * limit, MOST_LANES))


def held_label(room: Room) -> str:
    """As the statement of the claim names it."""
    return f"{room.state.kind}:{room.state.name}"
