"""Names of functions and tasks, in rows, in the log and in the console; and ids that sort by time (UUID version 7)."""

import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

SHORT_ID_LENGTH = 18
CHAIN = "django_tasks_retry.tasks.run_chain"  # the task of this package that runs a chain


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


def worker_of(owner: str | None) -> str:
    """Return the worker that a lease or an event names: its child has its name, a slash and a number."""
    return (owner or "").rpartition("/")[0] or owner or ""


def name_of(kind: type) -> str:
    """A class's own name, whatever its metaclass says when it is asked."""
    name: str = NAME.__get__(kind)
    return name


NAME = type.__dict__["__name__"]


# Ids. Time and chance are arguments.

NIL = UUID(int=0)  # sorts before every other id
LATEST = 253_402_300_799_000  # the last millisecond that a datetime can hold; ids of other kinds may claim a later one
VERSION_AND_VARIANT = 0x7 << 76 | 0b10 << 62
LOW = 2**62 - 1
set_int, set_is_safe = vars(uuid.UUID)["int"].__set__, vars(uuid.UUID)["is_safe"].__set__
UNKNOWN = uuid.SafeUUID.unknown


def uuid7(milliseconds: int, random_bits: int) -> uuid.UUID:
    """48 bits of time, then 74 random bits around the version and the variant."""
    time = (milliseconds & (2**48 - 1)) << 80
    return from_int(time | VERSION_AND_VARIANT | (random_bits >> 62 & 0xFFF) << 64 | random_bits & LOW)


def from_int(number: int) -> uuid.UUID:
    """`UUID(int=…)`, which takes eight times as long to find out which of its arguments it was given."""
    made = object.__new__(uuid.UUID)
    set_int(made, number)
    set_is_safe(made, UNKNOWN)
    return made


NUMBERS, VERSION = 2**10 - 1, 0xF << 76
"""The bits of an id of version 8 that hold the number of its shard; and those of the version."""


def in_shard(task_id: uuid.UUID, number: int) -> uuid.UUID:
    """Return the id with the number of its shard in it, sorting as before. The first shard has version 7."""
    if not number:
        return from_int(task_id.int & ~VERSION | 0x7 << 76)
    return from_int(task_id.int & ~(VERSION | NUMBERS) | 0x8 << 76 | number)


def shard_of(task_id: uuid.UUID) -> int:
    """Return the number of the shard in which a task lives. Ids of version 7 were made before there were any."""
    return task_id.int & NUMBERS if task_id.int & VERSION == 0x8 << 76 else 0


def first_of(milliseconds: int) -> uuid.UUID:
    """The smallest id made at this instant."""
    return uuid7(milliseconds, 0)


def time_of(task_id: uuid.UUID) -> datetime:
    return datetime.fromtimestamp(min(task_id.int >> 80, LATEST) / 1000, UTC)
