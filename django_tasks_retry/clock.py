"""The one seam that gives "now": PostgreSQL's clock on PostgreSQL, the host's on SQLite.

Both databases know it as the SQL function `django_tasks_retry_now()`. On PostgreSQL it is a function of the
schema; on SQLite it is registered on each connection. Tests travel in time by shifting it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Func

from .utc import InstantField, as_instant, sqlite_text

FUNCTION = "django_tasks_retry_now"
SERVER_TIME = "SELECT pg_catalog.statement_timestamp()"

_shift = timedelta(0)
_shifted_clock = SERVER_TIME
_frozen: ContextVar[datetime | None] = ContextVar("frozen", default=None)


class Now(Func):
    """The queue's clock, read by the statement that uses it."""

    function = FUNCTION
    output_field = InstantField()


def now(using: str) -> datetime:
    """One reading of the queue's clock."""
    connection = connections[using]
    if connection.vendor == "sqlite":
        return host_time()
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {FUNCTION}()")
        return as_instant(cursor.fetchone()[0])


def host_time() -> datetime:
    return _frozen.get() or datetime.now(UTC) + _shift


@contextmanager
def frozen(at: datetime | None = None) -> Iterator[None]:
    """One reading for a whole block on SQLite, as a statement has on PostgreSQL: of this moment, or an earlier one.

    Without it a lease could hold when a report is checked and be expired when the guard looks, a moment later.
    """
    token = _frozen.set(at or datetime.now(UTC) + _shift)
    try:
        yield
    finally:
        _frozen.reset(token)


def shift(delta: timedelta, using: str) -> None:
    """Move the clock by `delta` against real time. For tests only."""
    global _shift, _shifted_clock
    if connections[using].vendor == "sqlite":
        _shift = delta
        return
    later = f"{SERVER_TIME} OPERATOR(pg_catalog.+) interval '{delta.total_seconds()} seconds'"
    _shifted_clock = later if delta else SERVER_TIME
    with connections[using].cursor() as cursor:
        cursor.execute(create_clock(body=_shifted_clock))


def create_clock(schema: str = "", body: str = SERVER_TIME) -> str:
    """The statement that puts PostgreSQL's clock in place; `schema` ends in a dot."""
    return (
        f"CREATE OR REPLACE FUNCTION {schema}{FUNCTION}() RETURNS timestamptz "
        f"LANGUAGE sql STABLE PARALLEL SAFE AS $clock${body}$clock$"
    )


def known_clocks() -> set[str]:
    """Return the bodies that the function may have: the server's time, or the one that tests in this process set."""
    return {SERVER_TIME, _shifted_clock}


def register_on_sqlite(connection: BaseDatabaseWrapper, **_: Any) -> None:
    """Receiver of `connection_created`."""
    if connection.vendor == "sqlite":
        # The guard reads it for every row: without asking which database that was.
        connection.connection.create_function(FUNCTION, 0, lambda: sqlite_text(host_time()))
