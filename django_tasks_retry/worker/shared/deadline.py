"""A deadline for statements: a network that swallows packets gives no error of its own.

When it passes, the socket of the connection is shut. The driver then fails in its ordinary place with its ordinary
error; nothing is raised into whatever code happens to run.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

SHUT_AGAIN_SECONDS = 0.5


class Deadline:
    """For the main thread of a process, which alone receives signals."""

    def __init__(self, connection: Callable[[], Any], seconds: float) -> None:
        self.connection, self.seconds = connection, seconds
        self.has_passed = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Ends what the block asks of the database once the time is over. Time spent on connecting does not count."""
        self.has_passed = False
        signal.signal(signal.SIGALRM, self.shut_socket)
        # Again and again: the error may lead to a ROLLBACK, or to a new connection, that is not answered either.
        signal.setitimer(signal.ITIMER_REAL, self.seconds, SHUT_AGAIN_SECONDS)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def shut_socket(self, *_: object) -> None:
        self.has_passed = True
        # SQLite has no socket, nor has a connection that is being opened or closed.
        with suppress(Exception), socket.socket(fileno=os.dup(self.connection().fileno())) as open_socket:
            open_socket.shutdown(socket.SHUT_RDWR)
