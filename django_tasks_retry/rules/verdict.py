"""The verdict on a failed attempt: try again after a delay, or give up."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import Retry
from .backoff import MAX_DELAY, Custom, Exponential, Schedule
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
    if isinstance(error, Retry):
        return min(error.after, MAX_DELAY)
    if isinstance(backoff, Custom):
        delay = custom()
        return None if delay is None else min(max(0.0, float(delay)), MAX_DELAY)
    return backoff.delay(spent, chance)
