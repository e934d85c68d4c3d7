"""Limits of lanes, and `@lane`, which declares them: how many may run at once and start in a window, and the share."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any, Literal, Never, TypeAlias, TypeVar

from ...durations import checked_seconds, in_seconds
from ...errors import InvalidLane
from ..names import path_of
from .templates import name_of_function

Order: TypeAlias = Literal["eta", "strict"]
ORDERS = ("eta", "strict")
MOST = 1_000_000
SHORTEST_WINDOW = 0.1
LONGEST_WINDOW = 31 * 86400.0
HEAVIEST = 1000.0
WINDOW = 60.0


Rate: TypeAlias = tuple[int, float | timedelta]
RENAMED = {
    "running": "concurrency=", "starts": "rate=(starts, seconds)", "per": "rate=(starts, seconds)",
    "trips": "failure_threshold=",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """Limits on tasks that run at once, and on starts in a number of seconds: `rate=(100, 60)`. None: no limit."""

    concurrency: int | None = None
    rate: Rate | None = None
    weight: float = 1.0
    order: Order = "eta"
    failure_threshold: float | None = None
    """The share of failed attempts at which a function or a lane pauses itself."""

    def __post_init__(self) -> None:
        check_count("concurrency", self.concurrency)
        object.__setattr__(self, "rate", checked_rate(self.rate))
        if not is_number(self.weight) or not 1 / HEAVIEST <= self.weight <= HEAVIEST:
            raise InvalidLane(f"weight={self.weight!r}: give a number from 0.001 to 1,000; 1 is usual.")
        share = self.failure_threshold
        if share is not None and not (is_number(share) and 0 < share <= 1):
            raise InvalidLane(
                f"failure_threshold={share!r}: give the share of failed attempts, more than 0 and at most 1."
            )
        if self.order not in ORDERS:
            raise InvalidLane(f"order={self.order!r}: give 'eta', or 'strict' for one after the other.")
        if self.order == "strict" and self.concurrency not in (None, 1):
            raise InvalidLane(f"order='strict' runs one at a time, so concurrency={self.concurrency} contradicts it.")

    @property
    def starts(self) -> int | None:
        return self.rate[0] if self.rate else None

    @property
    def per(self) -> float:
        """Seconds of the window in which so many may start."""
        return float(in_seconds(self.rate[1])) if self.rate else WINDOW

    @property
    def most_running(self) -> int | None:
        return 1 if self.order == "strict" else self.concurrency

    @property
    def is_limited(self) -> bool:
        """Else it has a weight at most, and its tasks are claimed as any others."""
        return self.most_running is not None or self.rate is not None


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_count(name: str, value: object) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST):
        raise InvalidLane(f"{name}={value!r}: give a whole number from 1 to 1,000,000, or leave it out.")


def checked_rate(rate: Any) -> tuple[int, float] | None:
    if rate is None:
        return None
    wrong = InvalidLane(
        f"rate={rate!r:.80}: give so many starts, and in how many seconds, from 0.1 to 31 days: rate=(100, 60)."
    )
    if not isinstance(rate, list | tuple) or len(rate) != 2 or rate[0] is None:
        raise wrong
    check_count("rate: starts", rate[0])
    return rate[0], checked_seconds(rate[1], wrong, least=SHORTEST_WINDOW, most=LONGEST_WINDOW)


NO_LIMIT = Limit()
KEYS = tuple(field.name for field in fields(Limit))


def check_keys(given: Iterable[str]) -> None:
    for key in given:
        if key in RENAMED:
            raise InvalidLane(f"A limit has no {key!r}: write {RENAMED[key]}")
        if key not in KEYS:
            raise InvalidLane(f"{key!r} is no key of a limit: there are {', '.join(KEYS)}.")


def read_limit(value: object) -> Limit:
    """A Limit, or a dictionary of its keys."""
    if isinstance(value, Limit):
        return value
    if not isinstance(value, Mapping):
        raise InvalidLane(f"{value!r:.60}: give a Limit, or a dictionary such as {{'concurrency': 2}}.")
    given: dict[str, Any] = dict(value)
    check_keys(map(str, given))
    return Limit(**given)


F = TypeVar("F", bound=Callable[..., Any])
LANE_ATTRIBUTE = "lane"


@dataclass(frozen=True, slots=True)
class LaneDeclaration:
    """The template of the lane's name, and the limit of every lane that it names."""

    template: str
    limit: Limit


def lane(
    template: str | None = None,
    *,
    concurrency: int | None = None,
    rate: Rate | None = None,
    weight: float = 1.0,
    order: Order = "eta",
    failure_threshold: float | None = None,
    **unknown: Never,
) -> Callable[[F], F]:
    """Put the calls of a function into lanes: `"tenant-{tenant_id}"` is filled in from the arguments of each call.

    At most `concurrency` tasks of a lane run at once, over all workers. With `rate=(100, 60)`, at most 100 start in
    any 60 seconds. Lanes of one priority share workers by `weight`. With `order="strict"` a task begins when the one
    before it has ended for good. A lane pauses itself when the share `failure_threshold` of its attempts fails.
    Without a template all calls of the function share one lane. Stands below `@task`.
    """
    check_keys(unknown)
    limit = Limit(concurrency=concurrency, rate=rate, weight=weight, order=order, failure_threshold=failure_threshold)
    if template is not None and not isinstance(template, str):
        raise InvalidLane("@lane needs brackets, and a text as its template: @lane('tenant-{tenant_id}').")

    def decorate(function: F) -> F:
        if hasattr(function, "enqueue"):
            raise InvalidLane("@lane stands above @task: write it below, next to the function.")
        if declaration_of(function) is not None:
            raise InvalidLane(f"{function.__qualname__} is given two lanes: a task has one.")
        name = name_of_function(path_of(function)).replace("{", "{{") if template is None else template
        setattr(function, LANE_ATTRIBUTE, LaneDeclaration(name, limit))
        return function

    return decorate


def declaration_of(function: Callable[..., Any]) -> LaneDeclaration | None:
    found = getattr(function, LANE_ATTRIBUTE, None)
    return found if isinstance(found, LaneDeclaration) else None
