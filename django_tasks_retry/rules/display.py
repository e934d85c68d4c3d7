"""The short forms in which logs and the console name tasks and functions."""

from __future__ import annotations

from uuid import UUID

SHORT_ID_LENGTH = 18


def short_id(task_id: UUID | str) -> str:
    """The beginning of an id: its millisecond and 12 bits more. The console's search finds tasks by it."""
    return str(task_id)[:SHORT_ID_LENGTH]


def short_name(path: str) -> str:
    """The last part of a dotted path: the name of a function or of an exception without its module."""
    return path.rpartition(".")[2] or path
