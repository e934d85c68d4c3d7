"""How long the console lets a database work on one of its questions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections, transaction

from ..taskqueue.database import is_postgresql

SECONDS = 3


@contextmanager
def patience(using: str) -> Iterator[None]:
    """On PostgreSQL, statements inside are ended after a few seconds; OperationalError tells it."""
    if not is_postgresql(using):
        yield
        return
    with transaction.atomic(using=using), connections[using].cursor() as cursor:
        cursor.execute("SELECT current_setting('statement_timeout')")
        usual = cursor.fetchone()[0]
        cursor.execute("SELECT set_config('statement_timeout', %s, true)", [f"{SECONDS}s"])
        yield
        cursor.execute("SELECT set_config('statement_timeout', %s, true)", [usual])
