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
AGAIN_SECONDS = 0.01


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
        is_dropped = False
        while struck is not None and struck.f_code is not body.__code__:
            is_dropped = is_dropped or struck.f_code.co_name == "__del__"
            struck = struck.f_back
        if struck is not None and is_dropped:
            # What a destructor raises is dropped, with a complaint: ring once more when it is through.
            signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS, max(seconds, AGAIN_SECONDS))
        elif struck is not None:
            raise TimedOut(f"the server did not answer within {seconds:g} s")

    signal.signal(signal.SIGALRM, ring)
    try:
        # Rings again, for the error may lead to a ROLLBACK that is not answered either; but not while it still rings.
        signal.setitimer(signal.ITIMER_REAL, seconds, max(seconds, AGAIN_SECONDS))
        return body(verb)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def body(verb: Callable[[], T]) -> T:
    """What an alarm may strike, and nothing else."""
    return verb()
