"""The messages between a supervisor and its children: one frozen class each, encoded and decoded here alone."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Any, TypeAlias, get_args

from ...taskqueue.operator.histogram import EMPTY

logger = logging.getLogger(__name__)


# From the supervisor to a child


@dataclass(frozen=True, slots=True)
class ClaimNow:
    """A queue that the child serves may have due tasks."""


@dataclass(frozen=True, slots=True)
class LeasesRenewed:
    """The supervisor has just reached the database, so the child may try again."""


@dataclass(frozen=True, slots=True)
class DatabaseAway:
    """The supervisor cannot reach the database, so the child's connection leads nowhere either."""


@dataclass(frozen=True, slots=True)
class LeasesLost:
    """Tasks that are no longer the child's, and those among them that were cancelled."""

    tasks: tuple[str, ...]
    cancelled: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stop:
    """Claim no more, and end with the last running task; `abandoned` are tasks that others have answered for."""

    reason: str
    abandoned: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ping:
    """Does the interpreter still run?"""


# From a child to the supervisor


@dataclass(frozen=True, slots=True)
class Pong:
    """It does: the thread that reads messages answers by itself."""


@dataclass(frozen=True, slots=True)
class MoreDue:
    """The child claimed as many as it could: there may be more, for others."""


@dataclass(frozen=True, slots=True)
class Leaving:
    """The child stops by its own decision and wants to be replaced."""

    reason: str


@dataclass(frozen=True, slots=True)
class Goodbye:
    """The child's last word: everything it held is recorded. `drained`: there was nothing left to do."""

    drained: bool


@dataclass(frozen=True, slots=True)
class Counted:
    """How attempts of one function in one queue ended since the last such message."""

    queue: str
    func_path: str
    words: dict[str, int]
    seconds: float
    wait_seconds: float = 0.0
    ran: tuple[int, ...] = EMPTY
    waited: tuple[int, ...] = EMPTY
    """How many fell into each bucket of taskqueue/operator/histogram.py."""


@dataclass(frozen=True, slots=True)
class LaneCounted:
    """How attempts of one lane that has a circuit breaker ended since the last such message."""

    lane: str
    words: dict[str, int]


FromSupervisor: TypeAlias = ClaimNow | LeasesRenewed | DatabaseAway | LeasesLost | Stop | Ping
FromChild: TypeAlias = Pong | MoreDue | Leaving | Goodbye | Counted | LaneCounted
Message: TypeAlias = FromSupervisor | FromChild
KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(FromSupervisor | FromChild)}


def encode(message: Message) -> bytes:
    """One line of JSON. Messages are flat: there is nothing in them that would have to be copied, as `asdict` does."""
    values = {name: getattr(message, name) for name in message.__dataclass_fields__}
    return json.dumps([type(message).__name__, values]).encode() + b"\n"


def decode(line: bytes) -> Message | None:
    """None, and a line in the log, where it is no message of ours."""
    try:
        name, fields = json.loads(line)
        values = {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}
        message: Message = KINDS[name](**values)
        return message
    except (AttributeError, KeyError, TypeError, ValueError):
        logger.warning("unknown message between supervisor and child, ignored: %r", line[:200])
        return None
