"""Fresh database state for each attempt: what one task leaves behind never reaches the next."""

from __future__ import annotations

import select
import sqlite3
from collections.abc import Callable
from typing import Any

from asgiref.sync import SyncToAsync
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import Error


class Usage:
    """Notices whether a connection was used, without a word to the database."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self.connection = connection
        self.used = False
        connection.execute_wrappers.append(self)

    def __call__(self, execute: Callable[..., Any], *args: Any) -> Any:
        self.used = True
        return execute(*args)


class FreshConnections:
    """The connections of one thread; entered around each attempt."""

    def __init__(self) -> None:
        self.usages = [Usage(connections[alias]) for alias in connections]

    def __enter__(self) -> None:
        for usage in self.usages:
            usage.used = False
            if has_hung_up(usage.connection):
                abandon(usage.connection)

    def __exit__(self, *_: object) -> None:
        for usage in self.usages:
            tidy(usage.connection, used=usage.used)

    def abandon(self) -> None:
        """After an interruption, which may have struck in the middle of a statement."""
        for usage in self.usages:
            abandon(usage.connection)


class SharedConnections:
    """The connections of the one thread in which coroutines make their synchronous calls."""

    def __init__(self) -> None:
        self.connections: FreshConnections | None = None

    def tidy(self) -> None:
        """Behind the calls that stand in that thread's line, and before any that comes later."""
        thread = SyncToAsync.single_thread_executor
        if thread._threads:
            thread.submit(self.tidy_here)

    def tidy_here(self) -> None:
        first = self.connections is None
        shared = self.connections = self.connections or FreshConnections()
        for usage in shared.usages:
            tidy(usage.connection, used=usage.used or first)
            usage.used = False
            usage.connection.health_check_done = False  # type: ignore[attr-defined]


def has_hung_up(connection: BaseDatabaseWrapper) -> bool:
    """Where a server ended the connection while nobody used it, its farewell waits in the socket."""
    if connection.connection is None or connection.vendor != "postgresql":
        return False
    try:
        poll = select.poll()
        poll.register(connection.connection.fileno(), select.POLLIN)
        return bool(poll.poll(0))
    except Exception:  # the driver's word for a connection that is closed
        return True


def tidy(connection: BaseDatabaseWrapper, *, used: bool) -> None:
    """Give a connection back as if it were new, or close it."""
    if connection.connection is None:
        return
    if left_open(connection) or connection.errors_occurred:
        abandon(connection)
    elif used and connection.vendor == "postgresql":
        try:
            with connection.cursor() as cursor:
                cursor.execute("DISCARD ALL")
            connection.init_connection_state()
        except Error:
            abandon(connection)


def left_open(connection: BaseDatabaseWrapper) -> bool:
    if connection.in_atomic_block or connection.needs_rollback or not connection.get_autocommit():
        return True
    return connection.vendor == "sqlite" and left_open_on_sqlite(connection.connection)


def left_open_on_sqlite(connection: sqlite3.Connection) -> bool:
    """Also where the task closed it behind Django's back."""
    try:
        connection.total_changes  # noqa: B018 - raises where it is closed
    except sqlite3.Error:
        return True
    return connection.in_transaction


def abandon(connection: BaseDatabaseWrapper) -> None:
    """Close for real, also inside a transaction that the task left open."""
    connection.savepoint_ids.clear()
    connection.atomic_blocks.clear()
    connection.in_atomic_block = connection.needs_rollback = False
    connection.run_on_commit.clear()
    connection.close()
