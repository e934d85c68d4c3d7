"""How a process lives with database trouble: it reconnects and waits, with jitter, and never dies of it."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from time import monotonic
from typing import TypeVar

from django.db import connections
from django.db.utils import DataError, Error, IntegrityError

from ..taskqueue.database_errors import is_transient
from .hygiene import abandon

T = TypeVar("T")
logger = logging.getLogger("django_tasks_retry")


class Trouble(Exception):
    """The database could not be asked; try again later."""


class Refused(Trouble):
    """The database understood, and said no to this very write."""


class Weather:
    """Runs statements, and knows when it is worth trying again."""

    def __init__(self, using: str) -> None:
        self.using = using
        self.failures = 0
        self.try_after = 0.0

    @property
    def is_fine(self) -> bool:
        return monotonic() >= self.try_after

    def ask(self, verb: Callable[[], T]) -> T:
        """The verb's answer. Trouble where the database cannot give one: no error of its own ends a worker."""
        for tries_left in (2, 1, 0):
            try:
                answer = verb()
            except Error as error:
                if is_transient(error) and tries_left:
                    continue
                self.turn_bad(error)
                raise (Refused if isinstance(error, DataError | IntegrityError) else Trouble) from error
            self.turn_good()
            return answer
        raise AssertionError("the last try answers or raises")

    def turn_bad(self, error: BaseException) -> None:
        self.failures += 1
        wait = min(5.0, 0.05 * 2 ** min(self.failures, 10)) * random.uniform(0.5, 1.0)  # noqa: S311
        self.try_after = monotonic() + wait
        # Not only closed: what struck in the middle of a transaction may have left Django believing that it is in one.
        abandon(connections[self.using])
        level = logging.WARNING if self.failures in {1, 10, 100} else logging.DEBUG
        logger.log(level, "database trouble: %s · trying again in %.1fs", one_line(error), wait)

    def turn_good(self) -> None:
        if self.failures:
            logger.warning("database is back after %d failed tries", self.failures)
        self.failures, self.try_after = 0, 0.0


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
