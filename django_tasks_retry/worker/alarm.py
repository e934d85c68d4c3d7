"""Statements bounded in time by an alarm: a network that swallows packets gives no error of its own."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from django.db import connections
from django.db.utils import OperationalError

from .weather import Weather

T = TypeVar("T")
LOCK_MILLISECONDS = 1000


class TimedOut(OperationalError):
    """The database server did not answer in time."""


class BoundedWeather(Weather):
    """For the main thread of a process, which alone receives signals."""

    def __init__(self, using: str, seconds: float) -> None:
        super().__init__(using)
        self.seconds = seconds

    def ask(self, verb: Callable[[], T]) -> T:
        def within_time() -> T:
            with alarm(self.seconds):
                self.wait_briefly_for_locks()
                return verb()

        return super().ask(within_time)

    def wait_briefly_for_locks(self) -> None:
        """SQLite waits for its write lock where no alarm is heard."""
        connection = connections[self.using]
        if connection.vendor == "sqlite" and connection.connection is None:
            with connection.cursor() as cursor:
                cursor.execute(f"PRAGMA busy_timeout = {LOCK_MILLISECONDS}")


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    def ring(*_: Any) -> None:
        raise TimedOut(f"the server did not answer within {seconds:g} s")

    signal.signal(signal.SIGALRM, ring)
    # Rings again, for the error may lead to a ROLLBACK that is not answered either.
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except TimedOut:
        signal.setitimer(signal.ITIMER_REAL, 0)  # it may have rung on the very way out
        raise
