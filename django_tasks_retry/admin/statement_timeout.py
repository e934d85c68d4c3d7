"""A time limit for what the console asks a database, so that no request keeps one busy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections, transaction
from django.db.utils import OperationalError

from ..taskqueue.database import is_postgresql

SECONDS = 3.0
"""A single statement."""

REQUEST_SECONDS = 10.0
"""All statements of a request together: after that no further one is begun."""

QUERY_CANCELED = "57014"
SQLITE_STEPS = 10_000
"""Steps of SQLite's machine between two looks at the clock."""


class TooSlow(OperationalError):
    """The request has used up its time."""


@contextmanager
def statement_timeout(using: str, seconds: float | None = None) -> Iterator[None]:
    """Statements inside that take too long are cancelled; `is_timeout` knows what they raise."""
    limit = SECONDS if seconds is None else seconds
    database_limit = postgresql_limit if is_postgresql(using) else sqlite_limit
    with database_limit(using, limit), connections[using].execute_wrapper(Deadline(REQUEST_SECONDS + limit)):
        yield


class Deadline:
    """Refuses statements from a moment on."""

    def __init__(self, seconds: float) -> None:
        self.at = time.monotonic() + seconds

    def __call__(self, execute: Callable[..., Any], *statement: Any) -> Any:
        if time.monotonic() > self.at:
            raise TooSlow("This request has asked the database for too long.")
        return execute(*statement)


@contextmanager
def postgresql_limit(using: str, seconds: float) -> Iterator[None]:
    """A transaction, so that the limit ends with it, whatever happens and whoever pools the connection."""
    with transaction.atomic(using=using), connections[using].cursor() as cursor:
        cursor.execute("SELECT current_setting('statement_timeout')")
        previous = cursor.fetchone()[0]
        set_timeout(cursor, f"{max(1, round(seconds * 1000))}ms")
        yield
        set_timeout(cursor, previous)


def set_timeout(cursor: Any, value: str) -> None:
    cursor.execute("SELECT set_config('statement_timeout', %s, true)", [value])


@contextmanager
def sqlite_limit(using: str, seconds: float) -> Iterator[None]:
    """No transaction: with BEGIN IMMEDIATE a page that only reads would keep all writers waiting."""
    connections[using].ensure_connection()
    connection: Any = connections[using].connection
    deadline = time.monotonic() + seconds + REQUEST_SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > deadline, SQLITE_STEPS)
    try:
        yield
    finally:
        connection.set_progress_handler(None, 0)


def is_timeout(error: BaseException) -> bool:
    """Whether the database gave up for lack of time, and not for trouble of its own."""
    cause = error.__cause__
    return isinstance(error, TooSlow) or getattr(cause, "sqlstate", "") == QUERY_CANCELED or str(error) == "interrupted"
