"""Durations as users give them: seconds, a timedelta, or a text such as `5m`."""

from __future__ import annotations

import re
from datetime import timedelta

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def as_seconds(delay: float | timedelta) -> float:
    if isinstance(delay, bool) or not isinstance(delay, int | float | timedelta):
        raise TypeError(f"A delay must be a number of seconds or a timedelta, not {delay!r}.")
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else float(delay)
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"A delay must be a finite number of seconds, zero or more, not {delay!r}.")
    return seconds


def read_duration(text: str) -> float:
    """`500ms 30s 5m 6h 7d`; a bare number is seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?", text.strip())
    if not match or float(match[1]) <= 0:
        raise ValueError(f"{text!r} is not a duration. Write for example 500ms, 30s, 5m, 6h or 7d.")
    return float(match[1]) * UNITS[match[2] or "s"]
