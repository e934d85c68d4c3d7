"""How many tasks may wait, and what becomes of those that are too many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

LANE = "lane:"
"""Begins a pattern of lanes; all others are of queues."""


class Full(StrEnum):
    RAISE = "raise"
    DROP = "drop"
    WARN = "warn"


@dataclass(frozen=True, slots=True)
class Backlog:
    """At most `waiting` PENDING tasks; then a call raises, its task is dropped, or a warning is logged."""

    waiting: int
    full: Full = Full.RAISE


def read_backlogs(value: Any) -> dict[str, Backlog]:
    """By pattern of queue names, or of `lane:…`; ValueError where one cannot be understood."""
    if not isinstance(value, Mapping):
        raise TypeError(
            f"{value!r:.60}: give a dictionary, such as {{'emails': {{'waiting': 10_000, 'full': 'raise'}}}}."
        )
    return {str(pattern): read_backlog(pattern, given) for pattern, given in value.items()}


def read_backlog(pattern: str, given: Any) -> Backlog:
    asked = given if isinstance(given, Mapping) else {"waiting": given}
    waiting, full = asked.get("waiting"), asked.get("full", Full.RAISE)
    if set(asked) - {"waiting", "full"} or not isinstance(waiting, int) or isinstance(waiting, bool) or waiting < 1:
        raise ValueError(f"{pattern!r} is {given!r}: give a number of tasks from 1 on as 'waiting', and 'full'.")
    if full not in set(Full):
        raise ValueError(f"{pattern!r} has full={full!r}: give one of {', '.join(Full)}.")
    return Backlog(waiting, Full(full))


def backlog_for(label: str, backlogs: Mapping[str, Backlog]) -> Backlog | None:
    """Of a queue, or of `lane:…`: its own, else that of the first pattern of its kind that fits."""
    is_lane = label.startswith(LANE)
    of_kind = ((pattern, each) for pattern, each in backlogs.items() if pattern.startswith(LANE) == is_lane)
    return backlogs.get(label) or next((each for pattern, each in of_kind if fnmatchcase(label, pattern)), None)
