"""A limit: how much of a lane may run at once, how much may start in any window, and its share beside others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any, Literal, TypeAlias

from ...durations import as_seconds
from ...errors import InvalidLane

Order: TypeAlias = Literal["eta", "strict"]
ORDERS = ("eta", "strict")
MOST = 1_000_000
LONGEST_WINDOW = 31 * 86400.0
HEAVIEST = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """None means: as many as there are. `per` is seconds."""

    running: int | None = None
    starts: int | None = None
    per: float = 60.0
    weight: float = 1.0
    order: Order = "eta"
    trips: float | None = None
    """The share of failed attempts at which a function or a lane pauses itself."""

    def __post_init__(self) -> None:
        check_count("running", self.running)
        check_count("starts", self.starts)
        if not is_number(self.per) or not 0.1 <= self.per <= LONGEST_WINDOW:
            raise InvalidLane(f"per={self.per!r}: give seconds, from 0.1 to 31 days, or a timedelta.")
        if not is_number(self.weight) or not 1 / HEAVIEST <= self.weight <= HEAVIEST:
            raise InvalidLane(f"weight={self.weight!r}: give a number from 0.001 to 1,000; 1 is usual.")
        if self.trips is not None and not (is_number(self.trips) and 0 < self.trips <= 1):
            raise InvalidLane(f"trips={self.trips!r}: give the share of failed attempts, more than 0 and at most 1.")
        if self.order not in ORDERS:
            raise InvalidLane(f"order={self.order!r}: give 'eta', or 'strict' for one after the other.")
        if self.order == "strict" and self.running not in (None, 1):
            raise InvalidLane(f"order='strict' runs one at a time, so running={self.running} contradicts it.")

    @property
    def most_running(self) -> int | None:
        return 1 if self.order == "strict" else self.running

    @property
    def is_limited(self) -> bool:
        """Else it has a weight at most, and its tasks are claimed as any others."""
        return self.most_running is not None or self.starts is not None


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_count(name: str, value: object) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST):
        raise InvalidLane(f"{name}={value!r}: give a whole number from 1 to 1,000,000, or leave it out.")


NO_LIMIT = Limit()
KEYS = tuple(field.name for field in fields(Limit))


def make_limit(
    *,
    running: int | None = None,
    starts: int | None = None,
    per: float | timedelta | None = None,
    weight: float = 1.0,
    order: Order = "eta",
    trips: float | None = None,
) -> Limit:
    """Read the keywords of `@lane(...)` or of an entry in LANES."""
    if per is not None and starts is None:
        raise InvalidLane(f"per={per!r} is the length of a window: say how many `starts` may fall into it.")
    window = 60.0 if per is None else seconds(per)
    return Limit(running=running, starts=starts, per=window, weight=weight, order=order, trips=trips)


def seconds(per: float | timedelta) -> float:
    try:
        return as_seconds(per)
    except (TypeError, ValueError):
        raise InvalidLane(f"per={per!r}: give seconds or a timedelta.") from None


def read_limit(value: object) -> Limit:
    """A Limit, or a dictionary of its keys."""
    if isinstance(value, Limit):
        return value
    if not isinstance(value, Mapping):
        raise InvalidLane(f"{value!r:.60}: give a Limit, or a dictionary such as {{'running': 2}}.")
    given: dict[str, Any] = dict(value)
    unknown = sorted(set(map(str, given)) - set(KEYS))
    if unknown:
        raise InvalidLane(f"{unknown[0]!r} is no key of a limit: there are {', '.join(KEYS)}.")
    return make_limit(**given)
