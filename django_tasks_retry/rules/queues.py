"""Patterns of queues: which a worker takes tasks from, and how many tasks may be pending (OPTIONS["BACKLOG"])."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

LANE = "lane:"  # begins a pattern of lanes; all others are of queues


def matches(queue: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(queue, pattern) for pattern in patterns)


def serves(queue: str, queues: Sequence[str], exclude: Sequence[str] = ()) -> bool:
    """Return whether a worker of these queues takes tasks from this one; what is excluded is stronger."""
    return matches(queue, queues) and not matches(queue, exclude)


def read_backlogs(value: Any) -> dict[str, int]:
    """Return the most pending tasks, by pattern of queue names or of `lane:…`. Raise ValueError for others."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{value!r:.60}: give a dictionary, such as {{'emails': {{'max_pending': 10_000}}}}.")
    return {str(pattern): read_backlog(pattern, given) for pattern, given in value.items()}


def read_backlog(pattern: str, given: Any) -> int:
    asked = given if isinstance(given, Mapping) else {"max_pending": given}
    most = asked.get("max_pending")
    if set(asked) != {"max_pending"} or not isinstance(most, int) or isinstance(most, bool) or most < 1:
        raise ValueError(f"{pattern!r} is {given!r}: give a number of tasks from 1 on as 'max_pending'.")
    return most


def backlog_for(label: str, backlogs: Mapping[str, int]) -> int | None:
    """Return the cap of a queue, or of `lane:…`: its own, else that of the first pattern of its kind that fits."""
    is_lane = label.startswith(LANE)
    of_kind = ((pattern, each) for pattern, each in backlogs.items() if pattern.startswith(LANE) == is_lane)
    return backlogs.get(label) or next((each for pattern, each in of_kind if fnmatchcase(label, pattern)), None)
