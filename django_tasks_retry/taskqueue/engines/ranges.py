"""Ranges of tasks as engines find them due, and as claims read them. Plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from ...rules.lanes.limits import HEAVIEST
from ..database import as_moment
from ..lease import EARLIEST

TRUE = (True, "t")  # the driver returns the server's text if it could not read the row
FIRST_RANGE = ("", 0)  # which sorts before all: no queue is without a name
Cursors: TypeAlias = Mapping[tuple[str, int], str]  # the last lane that was seen, by queue and priority


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

    def with_quota(self, quota: int, only: UUID = EARLIEST) -> ClaimRange:
        """Copy it: `replace()` takes five times as long."""
        return ClaimRange(
            self.queue, self.priority, self.floor_eta, self.seen_at, self.floor_id, self.due_at, self.lane, self.weight,
            self.is_limited, quota, only,
        )  # fmt: skip

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
