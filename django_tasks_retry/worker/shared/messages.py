"""The messages between a supervisor and its children, one frozen class each, and the socket pair that carries them."""

import json
import logging
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias, get_args

from ...taskqueue import Stat

logger = logging.getLogger(__name__)


class StopReason(StrEnum):
    """Reasons for the end of a child, in the words that the events of its tasks show."""

    STOPPED = "the worker was stopped"
    SHUTDOWN = "the worker shut down"
    TIMEOUT = "its process is replaced after a neighbour's timeout"
    LEASE_EXPIRED = "its process is replaced, a lease in it ran out"
    MEMORY = "its process is replaced, it outgrew its memory"


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

    reason: StopReason
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

    reason: StopReason


@dataclass(frozen=True, slots=True)
class Goodbye:
    """The child's last word: everything it held is recorded. `drained`: there was nothing left to do."""

    drained: bool


FromSupervisor: TypeAlias = ClaimNow | LeasesRenewed | DatabaseAway | LeasesLost | Stop | Ping
FromChild: TypeAlias = Pong | MoreDue | Leaving | Goodbye | Stat
Message: TypeAlias = FromSupervisor | FromChild
KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(FromSupervisor | FromChild)}


def encode(message: Message) -> bytes:
    """One line of JSON. Messages are flat: there is nothing in them that would have to be copied, as `asdict` does."""
    values = {name: getattr(message, name) for name in message.__dataclass_fields__}
    return json.dumps([type(message).__name__, values]).encode() + b"\n"


def decode(line: bytes) -> Message | None:
    """Return the message. Log a line that is none of ours, and return None."""
    try:
        name, fields = json.loads(line)
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()
        }
        if "reason" in values:
            values["reason"] = StopReason(values["reason"])
        message: Message = KINDS[name](**values)
        return message
    except (AttributeError, KeyError, TypeError, ValueError):
        logger.warning("unknown message between supervisor and child, ignored: %r", line[:200])
        return None


# The socket pair

MOST_UNSENT = 64 * 1024


class Channel:
    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self.buffer = b""
        self.unsent = b""
        self.closed = False
        self.sending = threading.Lock()
        self.readable = select.poll()
        self.readable.register(end, select.POLLIN)

    def send(self, message: Message) -> bool:
        """Send a message, and return whether it was taken. That the peer is gone is noticed elsewhere.

        A peer that does not read gets the rest of a message with the next one; in the end, nothing more.
        """
        with self.sending:
            taken = len(self.unsent) < MOST_UNSENT
            if taken:
                self.unsent += encode(message)
            self.push()
            return taken

    def push(self) -> None:
        """Send as much of what is unsent as the socket takes."""
        with suppress(OSError):
            while self.unsent:
                self.unsent = self.unsent[self.socket.send(self.unsent) :]

    def flush(self, seconds: float) -> bool:
        """Wait until the peer has room, and push. Return False if it takes nothing in this time, or is gone."""
        writable = select.poll()
        writable.register(self.socket, select.POLLOUT)
        if not writable.poll(max(0.0, seconds) * 1000):
            return False
        with self.sending:
            before = len(self.unsent)
            self.push()
            return not before or len(self.unsent) < before

    def receive(self, timeout: float = 0.0) -> Iterator[Message]:
        """Yield the messages that have arrived. Wait for the first bytes for `timeout` seconds."""
        if timeout and not self.readable.poll(timeout * 1000):
            return
        try:
            data = self.socket.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self.closed = not data
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        yield from (message for line in lines if (message := decode(line)) is not None)

    def receive_all(self) -> Iterator[Message]:
        """Yield all messages that can be read without waiting. The socket must not block."""
        while not self.closed:
            before = self.buffer
            messages = list(self.receive())
            yield from messages
            if not messages and self.buffer == before:
                return

    def close(self) -> None:
        self.closed = True
        self.socket.close()


def channel_pair() -> tuple[Channel, Channel]:
    first, second = socket.socketpair()
    return Channel(first), Channel(second)
