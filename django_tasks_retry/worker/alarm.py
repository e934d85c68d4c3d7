"""Statements bounded in time by an alarm: a network that swallows packets gives no error of its own."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

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
        def patiently() -> T:
            self.wait_briefly_for_locks()
            return verb()

        return super().ask(lambda: within(self.seconds, patiently))

    def wait_briefly_for_locks(self) -> None:
        """SQLite waits for its write lock where no alarm is heard."""
        connection = connections[self.using]
        if connection.vendor == "sqlite" and connection.connection is None:
            with connection.cursor() as cursor:
                cursor.execute(f"PRAGMA busy_timeout = {LOCK_MILLISECONDS}")


def within(seconds: float, verb: Callable[[], T]) -> T:
    """The verb's answer, or TimedOut. It never rings elsewhere, not even on the way in or out."""

    def ring(_: int, struck: FrameType | None) -> None:
        while struck is not None:
            if struck.f_code is body.__code__:
                raise TimedOut(f"the server did not answer within {seconds:g} s")
            struck = struck.f_back

    signal.signal(signal.SIGALRM, ring)
    try:
        # Rings again, for the error may lead to a ROLLBACK that is not answered either.
        signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
        return body(verb)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def body(verb: Callable[[], T]) -> T:
    """What an alarm may strike, and nothing else."""
    return verb()
