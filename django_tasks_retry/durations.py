"""Durations as users give them: seconds, or a timedelta."""

from __future__ import annotations

from datetime import timedelta


def as_seconds(delay: float | timedelta) -> float:
    if isinstance(delay, bool) or not isinstance(delay, int | float | timedelta):
        raise TypeError(f"A delay must be a number of seconds or a timedelta, not {delay!r}.")
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else float(delay)
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"A delay must be a finite number of seconds, zero or more, not {delay!r}.")
    return seconds
