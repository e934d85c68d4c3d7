"""Fresh database state for each attempt: what one task leaves behind never reaches the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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

    def __exit__(self, *_: object) -> None:
        for usage in self.usages:
            tidy(usage.connection, used=usage.used)


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
    return connection.in_atomic_block or connection.needs_rollback or not connection.get_autocommit()


def abandon(connection: BaseDatabaseWrapper) -> None:
    """Close for real, also inside a transaction that the task left open."""
    connection.savepoint_ids.clear()
    connection.atomic_blocks.clear()
    connection.in_atomic_block = connection.needs_rollback = False
    connection.run_on_commit.clear()
    connection.close()
