"""Calls the database from a worker's own loops: reconnects, backs off with jitter, and never dies of trouble."""

import logging
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from time import monotonic
from typing import Any, TypeVar

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import DataError, Error, IntegrityError

from ...taskqueue.database import SHUT_AGAIN_SECONDS, hosts_of, is_busy, is_transient, shut_socket
from ...taskqueue.engines import engine_for

T = TypeVar("T")
logger = logging.getLogger(__name__)
SHORTEST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
LOCK_SECONDS = 1.0
CONNECT_SECONDS = 10.0


class Deadline:
    """A deadline for statements, in the main thread of a process, which alone receives signals.

    A network that swallows packets gives no error of its own. When the time is over, the socket of the connection is
    shut: the driver fails in its ordinary place with its ordinary error, and nothing is raised into other code.
    """

    def __init__(self, connection: Callable[[], Any], seconds: float) -> None:
        self.connection, self.seconds = connection, seconds
        self.has_passed = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """End the block's statements once the time is over. Time spent on connecting does not count."""
        self.has_passed = False
        signal.signal(signal.SIGALRM, self.shut_socket)
        # Again and again: the error may lead to a ROLLBACK, or to a new connection, that is not answered either.
        signal.setitimer(signal.ITIMER_REAL, self.seconds, SHUT_AGAIN_SECONDS)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def shut_socket(self, *_: object) -> None:
        self.has_passed |= shut_socket(self.connection())


class Unavailable(Exception):
    """The database could not be asked; try again later."""


class Rejected(Unavailable):
    """The database understood, and said no to this very write."""


class DatabaseCaller:
    """Calls verbs of the service layer, each within `seconds`, and knows when it is worth trying again."""

    def __init__(self, using: str, seconds: float, promise: Callable[[float], None] = lambda _: None) -> None:
        self.using = using
        self.deadline = Deadline(lambda: connections[using].connection, seconds)
        self.promise = promise
        self.failures = self.busy = 0
        self.refusal = ""
        self.try_after = 0.0
        self.began = 0.0

    @cached_property
    def longest_call(self) -> float:
        """Seconds that one call may take, connecting and rolling back included."""
        place = connections[self.using].settings_dict
        each = float(place.get("OPTIONS", {}).get("connect_timeout", CONNECT_SECONDS))
        return self.deadline.seconds + len(hosts_of(place)) * each + 1.0

    @property
    def is_available(self) -> bool:
        return monotonic() >= self.try_after

    def call(self, verb: Callable[[], T]) -> T:
        """Return the verb's answer. Raise Unavailable if the database gives none: its errors end no worker."""
        for tries_left in (2, 1, 0):
            try:
                answer = self.call_once(verb)
            except (Error, OSError) as error:
                if tries_left and isinstance(error, Error) and is_transient(error):
                    continue
                if isinstance(error, DataError | IntegrityError):
                    self.note_refusal(error)
                    raise Rejected from error
                self.note_busy() if is_busy(error) else self.note_failure(error)
                raise Unavailable from error
            self.note_success()
            return answer
        raise AssertionError("the last try answers or raises")

    def call_once(self, verb: Callable[[], T]) -> T:
        self.began = monotonic()
        self.promise(self.began + self.longest_call)
        self.connect()
        with self.deadline.running():
            answer = verb()
        if self.deadline.has_passed:
            discard(connections[self.using])  # answered at the last moment, over a socket that is shut by now
        return answer

    def connect(self) -> None:
        """Connect before the deadline runs: the driver bounds each host by itself, and the second may be the one."""
        connection = connections[self.using]
        is_new = connection.connection is None
        connection.ensure_connection()
        if is_new:
            engine_for(self.using).limit_session(min(LOCK_SECONDS, self.deadline.seconds / 2))

    def note_failure(self, error: BaseException) -> None:
        self.failures += 1
        wait = min(LONGEST_PAUSE, 0.05 * 2 ** min(self.failures, 10)) * random.uniform(0.5, 1.0)  # noqa: S311
        # From the beginning of the try: a connection to hosts that do not answer has taken its time already.
        self.try_after = max(monotonic() + SHORTEST_PAUSE, self.began + wait)
        # Not only closed: what failed in the middle of a transaction may have left Django believing that it is in one.
        discard(connections[self.using])
        level = logging.WARNING if self.failures in {1, 10, 100} else logging.DEBUG
        wait = self.try_after - monotonic()
        logger.log(level, "database unavailable: %s · trying again in %.1fs", self.reason(error), wait)

    def note_busy(self) -> None:
        """Try again soon. SQLite has answered, so this is no outage; whoever backs off is overtaken by others."""
        self.busy += 1
        self.try_after = monotonic() + SHORTEST_PAUSE
        level = logging.WARNING if self.busy in {10, 100} else logging.DEBUG
        logger.log(level, "others kept the database locked for %d tries in a row; still trying", self.busy)
        if connections[self.using].in_atomic_block:
            discard(connections[self.using])

    def note_refusal(self, error: BaseException) -> None:
        """Log what the server refused. It answered, so this is no outage: only a loop that asks on is slowed down."""
        self.try_after = monotonic() + SHORTEST_PAUSE
        discard(connections[self.using])
        before, self.refusal = self.refusal, self.reason(error)
        level = logging.DEBUG if self.refusal == before else logging.WARNING
        logger.log(level, "the database refused a statement: %s", self.refusal)

    def reason(self, error: BaseException) -> str:
        if self.deadline.has_passed:
            return f"the server did not answer within {self.deadline.seconds:g} s"
        return " ".join(str(error).split())[:300]

    @property
    def is_away(self) -> bool:
        """Return whether a statement failed, and the next one failed too."""
        return self.failures > 1

    def forget_connection(self) -> None:
        """Close the connection, so that the next call opens a new one."""
        discard(connections[self.using])

    def note_success(self) -> None:
        if self.failures:
            logger.warning("database is back after %d failed tries", self.failures)
        self.failures, self.busy, self.try_after = 0, 0, 0.0


def discard(connection: BaseDatabaseWrapper) -> None:
    """Close for real, also inside a transaction that was left open."""
    connection.savepoint_ids.clear()
    connection.atomic_blocks.clear()
    connection.in_atomic_block = connection.needs_rollback = False
    connection.run_on_commit.clear()
    connection.close()
