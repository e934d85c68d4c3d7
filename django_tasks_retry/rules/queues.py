"""Which queues are meant by the patterns that a worker is given."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase


def matches(queue: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(queue, pattern) for pattern in patterns)


def serves(queue: str, queues: Sequence[str], exclude: Sequence[str] = ()) -> bool:
    """Whether a worker of these queues takes tasks from this one; what is excluded is stronger."""
    return matches(queue, queues) and not matches(queue, exclude)
