"""How many tasks may wait, and what becomes of those that are too many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any


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
    """By pattern of queue names; ValueError where one cannot be understood."""
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


def backlog_for(queue: str, backlogs: Mapping[str, Backlog]) -> Backlog | None:
    """The queue's own, else that of the first pattern that fits."""
    fitting = (each for pattern, each in backlogs.items() if fnmatchcase(queue, pattern))
    return backlogs.get(queue) or next(fitting, None)
