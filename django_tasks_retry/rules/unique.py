"""Conflicts of unique keys: the modes of a call whose key is taken, and the two forms of a key."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

SUFFIX = ":again"
"""A key has two places: its own, and this one for the task that runs once more after the one that runs."""

CLOSE_ENOUGH = 0.05
"""The share of `debounce` by which a waiting task is not worth moving: a burst writes twenty moves, not a thousand."""


class OnConflict(StrEnum):
    """`keep` returns the holder of the key, `replace` cancels it, `run_again` runs after it, `raise` refuses."""

    KEEP = "keep"
    REPLACE = "replace"
    RUN_AGAIN = "run_again"
    RAISE = "raise"


class Conflict(NamedTuple):
    """A call's choice for a key that is in use. Times are seconds."""

    mode: OnConflict
    key: str
    debounce: float | None = None
    debounce_max: float | None = None


def places_of(key: str) -> tuple[str, str]:
    return key, f"{key}{SUFFIX}"


def other_place(key: str, taken: str) -> str:
    first, second = places_of(key)
    return second if taken == first else first
