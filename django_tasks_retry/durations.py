"""Durations as users give them: seconds, a timedelta, or a text such as `5m`."""

import re
from datetime import timedelta
from typing import Any

TEN_YEARS = 10 * 366 * 86400.0
MORE_THAN_ZERO = 5e-324  # the least float above zero: `least` of a duration that must not be zero
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def as_seconds(delay: float | timedelta) -> float:
    if isinstance(delay, bool) or not isinstance(delay, int | float | timedelta):
        raise TypeError(f"A delay must be a number of seconds or a timedelta, not {delay!r}.")
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else float(delay)
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"A delay must be a finite number of seconds, zero or more, not {delay!r}.")
    return seconds


def in_seconds(value: Any) -> Any:
    """Return a timedelta as seconds, and any other value as it is, for a check that follows."""
    return value.total_seconds() if isinstance(value, timedelta) else value


def checked_number(value: Any, wrong: Exception, *, least: float = 0.0, most: float = TEN_YEARS) -> float:
    """Return a plain number of seconds; raise `wrong` if it is none, or out of this range."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise wrong
    return float(value)


def checked_seconds(value: Any, wrong: Exception, *, least: float = 0.0, most: float = TEN_YEARS) -> float:
    """Return the seconds of a number or a timedelta; raise `wrong` if it is neither, or out of this range."""
    return checked_number(in_seconds(value), wrong, least=least, most=most)


LONGEST = 18_000 * 86_400.0  # seconds: the instant that long ago is still after 1970, when ids begin


def read_duration(text: str) -> float:
    """`500ms 30s 5m 6h 7d`; a bare number is seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?", text.strip())
    if not match or float(match[1]) <= 0:
        raise ValueError(f"{text!r} is not a duration. Write for example 500ms, 30s, 5m, 6h or 7d.")
    seconds = float(match[1]) * UNITS[match[2] or "s"]
    if seconds > LONGEST:
        raise ValueError(f"{text[:40]!r} is too long. Write 18000d, which is 49 years, or less.")
    return seconds
