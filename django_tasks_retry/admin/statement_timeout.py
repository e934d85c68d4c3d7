"""A time limit for the console's own statements, so that no page keeps a database busy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections, transaction

from ..taskqueue.database import is_postgresql

SECONDS = 3


@contextmanager
def statement_timeout(using: str) -> Iterator[None]:
    """On PostgreSQL, statements inside are cancelled after a few seconds, which raises OperationalError."""
    if not is_postgresql(using):
        yield
        return
    with transaction.atomic(using=using), connections[using].cursor() as cursor:
        cursor.execute("SELECT current_setting('statement_timeout')")
        previous = cursor.fetchone()[0]
        cursor.execute("SELECT set_config('statement_timeout', %s, true)", [f"{SECONDS}s"])
        yield
        cursor.execute("SELECT set_config('statement_timeout', %s, true)", [previous])
