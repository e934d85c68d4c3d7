"""Delays before the next attempt. Chance is an argument."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..durations import TEN_YEARS, checked_number
from ..errors import InvalidPolicy
from .names import path_of

BackoffFunction: TypeAlias = Callable[[BaseException, Any], float | None]
MAX_DELAY = TEN_YEARS


def bounded_delay(seconds: float) -> float:
    """Within what can be stored; what is no number means at once."""
    return min(max(0.0, seconds), MAX_DELAY)


@dataclass(frozen=True, slots=True)
class Exponential:
    """`base * factor ** (n - 1)` seconds, at most `cap`, then spread by ±`jitter`."""

    base: float = 1.5
    factor: float = 2.0
    cap: float = 60.0
    jitter: float = 0.3

    def __post_init__(self) -> None:
        for name in ("base", "factor", "cap", "jitter"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise InvalidPolicy(f"Exponential({name}={value!r}): give a number.")
        if not 0 <= self.base <= MAX_DELAY:
            raise InvalidPolicy(f"Exponential(base={self.base!r}): give seconds, zero or more, at most ten years.")
        if not 1 <= self.factor <= 1000:
            raise InvalidPolicy(f"Exponential(factor={self.factor!r}): must lie between 1 and 1000.")
        if not self.base <= self.cap <= MAX_DELAY:
            raise InvalidPolicy(f"Exponential(cap={self.cap!r}): must be at least base ({self.base:g} s).")
        if not 0 <= self.jitter <= 1:
            raise InvalidPolicy(f"Exponential(jitter={self.jitter!r}): a share between 0 and 1.")

    def delay(self, spent: int, chance: float) -> float:
        """Seconds to wait after the `spent`-th attempt; `chance` lies in [-1, 1] and picks the jitter."""
        # The exponent is bounded so that a large budget cannot overflow a float.
        grown = self.base * self.factor ** min(spent - 1, 100)
        return min(self.cap, grown) * (1 + self.jitter * chance)


@dataclass(frozen=True, slots=True)
class FixedDelays:
    """Fixed delays; past the end of the list the last one repeats."""

    delays: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.delays:
            raise InvalidPolicy("backoff=[]: a schedule needs at least one delay. For no retries use max_attempts=1.")
        for delay in self.delays:
            wrong = f"backoff={list(self.delays)!r}: {delay!r} is not a number of seconds, zero or more."
            checked_number(delay, InvalidPolicy(wrong))

    def delay(self, spent: int, _chance: float) -> float:
        return float(self.delays[min(spent, len(self.delays)) - 1])


@dataclass(frozen=True, slots=True)
class Custom:
    """A function of the user's, known to workers by its path; it is looked up, never imported."""

    path: str


Backoff: TypeAlias = Exponential | FixedDelays | Custom
BackoffLike: TypeAlias = Backoff | BackoffFunction | Sequence[float]


def as_backoff(value: BackoffLike) -> Backoff:
    """Read what a user may give as `backoff`."""
    if isinstance(value, Exponential | FixedDelays | Custom):
        return value
    if isinstance(value, list | tuple):
        return FixedDelays(tuple(value))
    if callable(value):
        path = path_of(value)
        if "<" in path:
            raise InvalidPolicy(
                f"backoff={path}: a backoff function must stand at module level, so workers can find it."
            )
        return Custom(path)
    raise InvalidPolicy(f"backoff={value!r}: give a list of seconds, Exponential(...) or a module-level function.")


def to_json(backoff: Backoff | None) -> Any:
    """The form stored in a task's row."""
    match backoff:
        case None:
            return None
        case FixedDelays(delays):
            return list(delays)
        case Exponential(base, factor, cap, jitter):
            return {"base": base, "factor": factor, "cap": cap, "jitter": jitter}
        case Custom(path):
            return {"function": path}


def from_json(stored: Any) -> Backoff | None:
    """Read the backoff of a row. Raises InvalidPolicy for a form of a later version."""
    try:
        match stored:
            case None:
                return None
            case list():
                return FixedDelays(tuple(stored))
            case {"function": str(path)}:
                return Custom(path)
            case dict():
                return Exponential(**stored)
    except (TypeError, ValueError):
        pass
    raise InvalidPolicy("The stored backoff has a form that this version does not know.")


def default_max_attempts(backoff: Backoff | None, otherwise: int) -> int:
    """A schedule is spent completely: three delays lie between four attempts."""
    return len(backoff.delays) + 1 if isinstance(backoff, FixedDelays) else otherwise


def has_unreachable_delays(backoff: Backoff | None, max_attempts: int) -> bool:
    return isinstance(backoff, FixedDelays) and max_attempts < len(backoff.delays) + 1
