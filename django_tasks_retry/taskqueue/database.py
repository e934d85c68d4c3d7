"""The database of a backend's tasks: how statements are run there, and what its errors mean."""

import json
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from sqlite3 import SQLITE_BUSY
from typing import Any
from weakref import WeakKeyDictionary

from django.core.exceptions import EmptyResultSet
from django.db import DataError, Error, connections, router
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import QuerySet

from ..conf import options
from ..models import Task
from ..rules.schedules.timing import NO_EXPRESSION
from ..utc import instant_loader, read

SHUT_AGAIN_SECONDS = 0.5  # the error may lead to a ROLLBACK, or to a new connection, that is not answered either


source: ContextVar[str] = ContextVar("source", default="")
"""`replica` while a page is read from it, `primary` after it gave no answer. See `replica.from_replica`."""


def database(backend: str = "default") -> str:
    """The one alias that all statements of this backend go to; the replica's while pages and metrics are read."""
    chosen = options(backend)
    if source.get() == "replica" and chosen.console_database:
        return chosen.console_database
    return chosen.database or str(router.db_for_write(Task))


def is_postgresql(using: str) -> bool:
    return connections[using].vendor == "postgresql"


def hosts_of(place: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return host and port of each server that settings, or else the environment, name. Only one may have no name."""
    options = place.get("OPTIONS") or {}
    hosts = str(place.get("HOST") or options.get("host") or os.environ.get("PGHOST", "")).split(",")
    ports = str(place.get("PORT") or options.get("port") or os.environ.get("PGPORT", "")).split(",")
    return list(zip(hosts, ports * len(hosts) if len(ports) == 1 else ports, strict=False))


def shut_socket(connection: Any) -> bool:
    """Shut the socket of a driver's connection, so that a statement without an answer fails in its ordinary place.

    Return whether there was one.
    """
    # SQLite has no socket, nor has a connection that is being opened or closed.
    with suppress(Exception), socket.socket(fileno=os.dup(connection.fileno())) as open_socket:
        open_socket.shutdown(socket.SHUT_RDWR)
        return True
    return False


ROWS = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=str)


def as_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as the one JSON text that a statement takes; ids and times become texts in it."""
    return ROWS.encode(rows)


def as_array(values: Sequence[Any]) -> str:
    """Values as the text of an array. The driver would take forty microseconds to look at their types first."""
    return "{" + ",".join([quoted(value) for value in values]) + "}"


def quoted(value: Any) -> str:
    if value is None:
        return "NULL"
    text = str(value)
    if "\\" in text or '"' in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def as_moment(value: Any) -> datetime:
    """A time as the models give it; SQLite answers raw statements with texts, in UTC."""
    if isinstance(value, datetime):
        return value
    read_from = datetime.fromisoformat(value)
    return read_from.astimezone(UTC) if read_from.tzinfo else read_from.replace(tzinfo=UTC)


@contextmanager
def cursor_on(using: str) -> Iterator[Any]:
    """Yield a cursor that plans afresh and reads times as instants, whatever the project's settings say.

    A plan that was kept from an empty table is wrong after the next burst.
    """
    with connections[using].cursor() as cursor:
        if connections[using].vendor != "postgresql":
            yield cursor
            return
        cursor.adapters.register_loader("timestamptz", instant_loader())
        connection = cursor.connection
        threshold, connection.prepare_threshold = connection.prepare_threshold, None
        try:
            yield cursor
        finally:
            connection.prepare_threshold = threshold


_kept: WeakKeyDictionary[BaseDatabaseWrapper, tuple[Any, Any]] = WeakKeyDictionary()
"""The driver's connection behind each of Django's, and the cursor that is kept with it."""


@contextmanager
def executed(sql: str, parameters: Any, using: str) -> Iterator[Any]:
    """Run one statement, and yield the cursor that holds its answer, until the next statement.

    By the driver's own cursor, kept with its connection: Django's, made and told how to read times for each statement,
    take the client 90 µs more. Django's is used if somebody watches its statements.
    """
    wrapper = connections[using]
    if wrapper.vendor != "postgresql" or wrapper.execute_wrappers or wrapper.queries_logged:
        with cursor_on(using) as cursor:
            cursor.execute(sql, parameters)
            yield cursor
        return
    wrapper.close_if_health_check_failed()
    wrapper.ensure_connection()
    wrapper.validate_thread_sharing()
    wrapper.validate_no_broken_transaction()
    with wrapper.wrap_database_errors:
        cursor = kept_cursor(wrapper)
        cursor.execute(sql, parameters, prepare=False)
        yield cursor


def kept_cursor(wrapper: BaseDatabaseWrapper) -> Any:
    """A cursor that threads would share is made anew, and so is one of a connection that has been closed."""
    connection, cursor = _kept.get(wrapper, (None, None))
    if connection is not wrapper.connection or cursor.closed or wrapper.allow_thread_sharing:
        cursor = wrapper.connection.cursor()
        cursor.adapters.register_loader("timestamptz", instant_loader())
        _kept[wrapper] = wrapper.connection, cursor
    return cursor


def as_instants(rows: list[tuple[Any, ...]], using: str) -> list[tuple[Any, ...]]:
    """The rows with their times in UTC. SQLite's come without a zone."""
    connection = connections[using]
    if connection.vendor == "postgresql":
        return rows
    return [tuple(read(each, connection) if isinstance(each, datetime) else each for each in row) for row in rows]


def fetch_dicts(sql: str, parameters: Mapping[str, Any], using: str) -> list[dict[str, Any]]:
    """Run one statement; its rows as dictionaries."""
    with executed(sql, parameters, using) as cursor:
        columns = [column[0] for column in cursor.description or ()]
        return [dict(zip(columns, row, strict=True)) for row in as_instants(cursor.fetchall(), using)]


def fetch(sql: str, parameters: Any, using: str) -> list[tuple[Any, ...]]:
    """Run one statement; its rows as they come."""
    with executed(sql, parameters, using) as cursor:
        return as_instants(cursor.fetchall(), using)


class AsTexts(tuple[Any, ...]):
    """A row that the driver could not read, as the texts that the server sent."""

    reason = ""


def fetch_any(sql: str, parameters: Any, using: str) -> list[tuple[Any, ...]]:
    """Run one statement whose rows may hold anything, such as the year 20000: what the driver cannot read is `AsTexts`.

    It reads all rows or none, so rows are read one at a time only after that has failed.
    """
    driver: Any = connections[using]
    with executed(sql, parameters, using) as cursor:
        try:
            return as_instants(cursor.fetchall(), using)
        except (Error, driver.Database.Error, *UNREADABLE):
            driven = getattr(cursor, "cursor", cursor)  # without Django's wrapper
            if getattr(driven, "pgresult", None) is None:
                raise
            return [fetch_row(driven, number, using) for number in range(driven.pgresult.ntuples)]


def fetch_stored(tasks: QuerySet[Task], columns: Sequence[str], using: str) -> list[tuple[Any, ...]]:
    """These columns of tasks as they are stored: the models would read all rows or none."""
    try:
        sql, parameters = tasks.values_list(*columns).query.get_compiler(using).as_sql()
    except EmptyResultSet:
        return []
    if not is_postgresql(using):
        # As expressions, which the driver does not take for times that it could read.
        sql = f"SELECT {', '.join(f'+stored.{column}' for column in columns)} FROM ({sql}) AS stored"  # noqa: S608
        with executed(sql, parameters, using) as cursor:
            return list(cursor.fetchall())
    return fetch_any(sql, parameters, using)


def fetch_row(driven: Any, number: int, using: str) -> tuple[Any, ...]:
    try:
        driven.scroll(number, mode="absolute")
        [row] = as_instants([driven.fetchone()], using)
    except Exception as error:  # noqa: BLE001 - whatever the driver makes of the row
        values = (driven.pgresult.get_value(number, place) for place in range(driven.pgresult.nfields))
        texts = AsTexts(None if value is None else value.decode() for value in values)
        texts.reason = str(error)
        return texts
    return row


UNREADABLE = (DataError, AttributeError, RecursionError, *NO_EXPRESSION)
"""Raised for a row that holds what no code of ours writes: by drivers, decoders, and those who use its values."""

TRANSIENT = frozenset({"40001", "40P01", "55P03"})
"""SQLSTATEs: serialization_failure, deadlock_detected, lock_not_available."""


def is_transient(error: BaseException) -> bool:
    """Return whether the same statement, sent again at once, may well succeed."""
    return getattr(error.__cause__ or error, "sqlstate", None) in TRANSIENT


PRIMARY_CODE = 0xFF


def is_busy(error: BaseException | None) -> bool:
    """Return whether SQLite's write lock was taken for as long as the session waits."""
    return getattr(getattr(error, "__cause__", None), "sqlite_errorcode", 0) & PRIMARY_CODE == SQLITE_BUSY


UNDEFINED_TABLE = "42P01"


def is_missing_table(error: BaseException) -> bool:
    """Return whether a statement named a table that the database does not have."""
    cause = error.__cause__ or error
    return getattr(cause, "sqlstate", None) == UNDEFINED_TABLE or str(cause).startswith("no such table")
