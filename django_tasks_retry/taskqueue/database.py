"""Which database a backend's tasks live in, and how its statements are run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.db import connections, router

from ..conf import options
from ..instants import read
from ..models import Task


def database(backend: str = "default") -> str:
    """The one alias that all statements of this backend go to."""
    return options(backend).database or str(router.db_for_write(Task))


def is_postgresql(using: str) -> bool:
    return connections[using].vendor == "postgresql"


ROWS = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=str)


def as_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as the one JSON text that a statement takes; ids and times become texts in it."""
    return ROWS.encode(rows)


def as_array(values: Sequence[Any]) -> str:
    """Values as the text of an array. The driver would take forty microseconds to look at their types first."""
    quoted = (str(value).replace("\\", "\\\\").replace('"', '\\"') for value in values)
    return '{"' + '","'.join(quoted) + '"}' if values else "{}"


def as_moment(value: Any) -> datetime:
    """A time as the models give it; SQLite answers raw statements with texts, in UTC."""
    return value if isinstance(value, datetime) else datetime.fromisoformat(value).replace(tzinfo=UTC)


def as_instants(rows: list[tuple[Any, ...]], using: str) -> list[tuple[Any, ...]]:
    """The rows with their times in UTC, which a session in another zone does not give, nor SQLite."""
    connection = connections[using]
    if settings.USE_TZ and connection.vendor == "postgresql" and connection.timezone_name == "UTC":
        return rows
    return [tuple(read(each, connection) if isinstance(each, datetime) else each for each in row) for row in rows]


def run(sql: str, parameters: Mapping[str, Any], using: str) -> list[dict[str, Any]]:
    """Run one statement; its rows as dictionaries."""
    with connections[using].cursor() as cursor, unprepared(cursor):
        cursor.execute(sql, parameters)
        columns = [column[0] for column in cursor.description or ()]
        return [dict(zip(columns, row, strict=True)) for row in as_instants(cursor.fetchall(), using)]


def fetch(sql: str, parameters: Mapping[str, Any] | None, using: str) -> list[tuple[Any, ...]]:
    """Run one statement; its rows as they come."""
    with connections[using].cursor() as cursor, unprepared(cursor):
        cursor.execute(sql, parameters)
        return as_instants(cursor.fetchall(), using)


@contextmanager
def unprepared(cursor: Any) -> Iterator[None]:
    """Plan afresh, whatever OPTIONS say: a plan that was kept from an empty table is wrong after the next burst."""
    connection = cursor.connection
    threshold = getattr(connection, "prepare_threshold", None)
    if threshold is None:
        yield
        return
    connection.prepare_threshold = None
    try:
        yield
    finally:
        connection.prepare_threshold = threshold
