"""The verdict on a failed attempt: try again after a delay, or give up."""

from __future__ import annotations

from collections.abc import Callable

from ..durations import as_seconds
from ..errors import Retry
from .backoff import Custom, Exponential, Schedule, bounded_delay
from .failure import PERMANENT, Code
from .policy import RetryPolicy


def delay_before_next(
    error: BaseException | None,
    code: Code,
    *,
    policy: RetryPolicy,
    backoff: Exponential | Schedule | Custom,
    custom: Callable[[], float | None],
    spent: int,
    max_attempts: int,
    chance: float,
) -> float | None:
    """Seconds until the next attempt, or None to give up.

    `spent` counts the attempts that were not refunded; `custom` asks the user's own backoff function.
    """
    if spent >= max_attempts or code in PERMANENT:
        return None
    if error is not None and policy.gives_up_on(error):
        return None
    if isinstance(error, Retry) and (after := seconds_of(error, "after")) is not None:
        return after
    if isinstance(backoff, Custom):
        delay = custom()
        return None if delay is None else bounded_delay(float(delay))
    return bounded_delay(backoff.delay(spent, chance))


def seconds_of(signal: BaseException, name: str) -> float | None:
    """What a Retry or a Snooze asks for; None where a subclass never called the constructor that keeps it."""
    try:
        return bounded_delay(as_seconds(getattr(signal, name)))
    except (AttributeError, TypeError, ValueError):
        return None
