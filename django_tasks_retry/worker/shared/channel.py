"""The line between a supervisor and a child: messages over a socket pair."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

from .messages import Message, decode, encode

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
        """Losing a message to a peer that is gone is no error: its end is noticed elsewhere.

        A peer that does not read gets the rest of a message with the next one; in the end, nothing more. False where
        the message was not taken.
        """
        with self.sending:
            taken = len(self.unsent) < MOST_UNSENT
            if taken:
                self.unsent += encode(message)
            with suppress(OSError):
                while self.unsent:
                    self.unsent = self.unsent[self.socket.send(self.unsent) :]
            return taken

    def receive(self, timeout: float = 0.0) -> Iterator[Message]:
        """The messages that have arrived; waits for the first bytes as long as it is told to."""
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
        """All that is there to be read, without waiting; for a socket that does not block."""
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
