"""The buckets that waits and run times are counted in: fixed, so that counts of all workers and times add up."""

from __future__ import annotations

from bisect import bisect_left

BOUNDS = (0.01, 0.05, 0.25, 1.0, 5.0, 30.0, 300.0, 3600.0)
"""Seconds, each the most that its bucket holds. The last bucket has no bound."""

BUCKETS = ("10ms", "50ms", "250ms", "1s", "5s", "30s", "5m", "1h", "more")
RAN = tuple(f"ran_{name}" for name in BUCKETS)
WAITED = tuple(f"waited_{name}" for name in BUCKETS)
"""The columns that hold how many attempts ran, or waited, for so long; each counts its own bucket alone."""

EMPTY = (0,) * len(BUCKETS)


ONE_IN = tuple(tuple(int(place == bucket) for place in range(len(BUCKETS))) for bucket in range(len(BUCKETS)))


def bucket_of(seconds: float) -> int:
    return bisect_left(BOUNDS, seconds)


def in_bucket(seconds: float) -> tuple[int, ...]:
    """Return the counts of one attempt that took so long."""
    return ONE_IN[bucket_of(seconds)]
