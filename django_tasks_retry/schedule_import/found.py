"""What a source holds, before anybody has checked it; and how tables of other apps are read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.db import DatabaseError, connections, transaction

from ..errors import InvalidSchedule
from ..taskqueue.database import run


@dataclass(frozen=True, slots=True)
class Found:
    name: str
    task: str = ""
    asked: dict[str, Any] = field(default_factory=dict)
    is_paused: bool = False
    problem: str = ""


def rows_of(sql: str, table: str, using: str) -> list[dict[str, Any]]:
    """From the tables themselves: the other package may have been uninstalled before."""
    with connections[using].cursor() as cursor:
        if table not in connections[using].introspection.table_names(cursor):
            raise InvalidSchedule(f"The database {using!r} has no table {table}. Is it in another database?")
    try:
        with transaction.atomic(using=using):
            return run(sql, {}, using)
    except DatabaseError as error:
        raise InvalidSchedule(f"{table} is not as expected: {error}. Is it of another version?") from None
