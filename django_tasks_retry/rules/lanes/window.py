"""Starts within a sliding window, remembered in a few buckets: never fewer than there were.

A bucket is the instant at which it ends, and a count. A start is counted in a bucket that ends after it, and a bucket
counts until it has left the window as a whole; so whatever the buckets' width, no window of that length ever holds more
starts than are counted. The price is at most one bucket's width in which fewer may start: a 4096th of the window, or a
64th once there are 64 buckets.
"""

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

from ...errors import InvalidLane
from .limits import MOST

Buckets: TypeAlias = list[tuple[float, int]]
BUCKETS, FINE = 64, 4096
LATEST = 1e12  # no bucket ends later, in seconds of the queue's clock


def check_buckets(recent: Any) -> None:
    """Raise InvalidLane if stored buckets are no pairs of an instant and a count."""
    try:
        are_sound = all(0 <= float(end) <= LATEST and 0 <= int(count) <= MOST for end, count in recent)
    except (TypeError, ValueError, OverflowError):
        are_sound = False
    if not are_sound:
        raise InvalidLane("recent: the starts in its window cannot be read.")


def in_window(recent: Sequence[Sequence[float]], per: float, now: float) -> Buckets:
    """The buckets that still count, the oldest first. Times are seconds of the queue's clock."""
    return sorted((float(end), int(count)) for end, count in recent if end > now - per)


def room(recent: Sequence[Sequence[float]], starts: int, per: float, now: float) -> int:
    """Return how many may start now."""
    return max(0, starts - sum(count for _, count in in_window(recent, per, now)))


def opens_in(recent: Sequence[Sequence[float]], starts: int, per: float, now: float) -> float:
    """Seconds until one may start."""
    buckets = in_window(recent, per, now)
    over = sum(count for _, count in buckets) - starts + 1
    for end, count in buckets:
        if over <= 0:
            break
        over -= count
        if over <= 0:
            return max(0.0, end + per - now)
    return 0.0


def with_starts(recent: Sequence[Sequence[float]], count: int, per: float, now: float) -> Buckets:
    """The buckets after so many starts, none of them later than `now`."""
    buckets = dict(in_window(recent, per, now))
    width = per / (FINE if len(buckets) < BUCKETS else BUCKETS)
    end = math.ceil(now / width) * width
    end = end if end > now else end + width
    buckets[end] = buckets.get(end, 0) + count
    return sorted(buckets.items())
