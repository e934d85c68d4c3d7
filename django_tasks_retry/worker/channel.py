"""The line between a supervisor and a child: small JSON messages over a socket pair."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

Message = dict[str, Any]
MOST_UNSENT = 64 * 1024


class Channel:
    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self.buffer = b""
        self.unsent = b""
        self.closed = False

    def send(self, **message: Any) -> None:
        """Losing a message to a peer that is gone is no error: its end is noticed elsewhere.

        A peer that does not read gets the rest of a message with the next one; in the end, nothing more.
        """
        if len(self.unsent) < MOST_UNSENT:
            self.unsent += json.dumps(message).encode() + b"\n"
        with suppress(OSError):
            while self.unsent:
                self.unsent = self.unsent[self.socket.send(self.unsent) :]

    def receive(self) -> Iterator[Message]:
        """The messages that have arrived; waits for the first bytes."""
        try:
            data = self.socket.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self.closed = not data
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        for line in lines:
            yield json.loads(line)

    def close(self) -> None:
        self.socket.close()


def channel_pair() -> tuple[Channel, Channel]:
    first, second = socket.socketpair()
    return Channel(first), Channel(second)
