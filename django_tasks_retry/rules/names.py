"""Names of functions and tasks, in rows, in the log and in the console."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

SHORT_ID_LENGTH = 18


def path_of(function: Callable[..., Any]) -> str:
    """Return the dotted path of a function. Other callables, such as partials, have none: `<partial>`."""
    name = getattr(function, "__qualname__", f"<{type(function).__name__}>")
    return f"{getattr(function, '__module__', None)}.{name}"


def short_name(path: str) -> str:
    """The last part of a dotted path: `send_mail` for `shop.tasks.send_mail`."""
    return path.rpartition(".")[2]


def short_id(task_id: UUID | str) -> str:
    """The beginning of an id, by which the console finds the task: `0199abcd-ef01-7234`.

    It holds the millisecond and the counter of a UUID version 7: tasks that one process enqueues never share it, and
    those of two processes only once in thousands of times that both hit the same millisecond.
    """
    return str(task_id)[:SHORT_ID_LENGTH]


def name_of(kind: type) -> str:
    """A class's own name, whatever its metaclass says when it is asked."""
    name: str = NAME.__get__(kind)
    return name


NAME = type.__dict__["__name__"]
