"""The one seam that gives "now": PostgreSQL's clock on PostgreSQL, the host's on SQLite.

Both databases know it as the SQL function `django_tasks_retry_now()`. On PostgreSQL it is a function of the
schema; on SQLite it is registered on each connection. Tests travel in time by shifting it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import DateTimeField, Func
from django.utils import timezone

FUNCTION = "django_tasks_retry_now"

CREATE_POSTGRESQL = """\
CREATE OR REPLACE FUNCTION django_tasks_retry_now() RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE AS 'SELECT pg_catalog.statement_timestamp() + interval ''{seconds} seconds'''\
"""

_shift = timedelta(0)
_frozen: ContextVar[datetime | None] = ContextVar("frozen", default=None)


class Now(Func):
    """The queue's clock, read by the statement that uses it."""

    function = FUNCTION
    output_field = DateTimeField()


def now(using: str) -> datetime:
    """One reading of the queue's clock, in the form that model fields take."""
    connection = connections[using]
    if connection.vendor == "sqlite":
        aware = _frozen.get() or datetime.now(UTC) + _shift
        return aware if settings.USE_TZ else timezone.make_naive(aware, connection.timezone)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {FUNCTION}()")
        value: datetime = cursor.fetchone()[0]
        return value


@contextmanager
def frozen() -> Iterator[None]:
    """One reading for a whole block on SQLite, as a statement has on PostgreSQL.

    Without it a lease could hold when a report is checked and be expired when the guard looks, a moment later.
    """
    token = _frozen.set(datetime.now(UTC) + _shift)
    try:
        yield
    finally:
        _frozen.reset(token)


def shift(delta: timedelta, using: str) -> None:
    """Move the clock by `delta` against real time. For tests only."""
    global _shift
    if connections[using].vendor == "sqlite":
        _shift = delta
        return
    with connections[using].cursor() as cursor:
        cursor.execute(CREATE_POSTGRESQL.format(seconds=delta.total_seconds()))


def register_on_sqlite(connection: BaseDatabaseWrapper, **_: Any) -> None:
    """Receiver of `connection_created`."""
    if connection.vendor == "sqlite":
        alias = connection.alias
        connection.connection.create_function(FUNCTION, 0, lambda: sqlite_text(now(alias)))


def sqlite_text(moment: datetime) -> str:
    """As Django writes a datetime to SQLite, always with microseconds so that texts compare as times."""
    return moment.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
