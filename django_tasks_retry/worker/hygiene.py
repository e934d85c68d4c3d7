"""Fresh database state for each attempt: what one task leaves behind never reaches the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import Error


class Usage:
    """Notices whether a connection was used, without a word to the database."""

    def __init__(self) -> None:
        self.used = False

    def __call__(self, execute: Callable[..., Any], *args: Any) -> Any:
        self.used = True
        return execute(*args)


@contextmanager
def fresh_connections() -> Iterator[None]:
    """Around one attempt, in the thread that runs it."""
    usages = {alias: Usage() for alias in connections}
    with ExitStack() as stack:
        for alias, usage in usages.items():
            stack.enter_context(connections[alias].execute_wrapper(usage))
        try:
            yield
        finally:
            for alias, usage in usages.items():
                tidy(connections[alias], used=usage.used)


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
