"""Rows that guard and constraints would refuse: what an older release, a restore or a superuser left behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections

from django_tasks_retry.models import Task

TABLE = Task._meta.db_table


def overwrite(task: Task, using: str, **columns: Any) -> None:
    """Write these texts into a row, past everything that would refuse them."""
    with without_guard(using), connections[using].cursor() as cursor:
        key = str(task.pk) if using == "postgresql" else task.pk.hex
        for name, text in columns.items():
            cursor.execute(f'UPDATE {TABLE} SET "{name}" = %s WHERE id = %s', [text, key])


@contextmanager
def without_guard(using: str, table: str = TABLE) -> Iterator[None]:
    """Inside the test's own transaction, which brings all back."""
    lifted = postgresql_without_guard if using == "postgresql" else sqlite_without_guard
    with connections[using].cursor() as cursor, lifted(cursor, table):
        yield


@contextmanager
def postgresql_without_guard(cursor: Any, table: str) -> Iterator[None]:
    cursor.execute("SELECT conname FROM pg_constraint WHERE contype = 'c' AND conrelid = %s::regclass", [table])
    for (name,) in cursor.fetchall():
        cursor.execute(f'ALTER TABLE {table} DROP CONSTRAINT "{name}"')
    cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
    yield
    cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")


@contextmanager
def sqlite_without_guard(cursor: Any, table: str) -> Iterator[None]:
    cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = %s", [table])
    triggers = cursor.fetchall()
    cursor.execute("PRAGMA ignore_check_constraints = 1")
    for name, _sql in triggers:
        cursor.execute(f'DROP TRIGGER "{name}"')
    yield
    for _name, sql in triggers:
        cursor.execute(sql.replace("%", "%%"), [])
    cursor.execute("PRAGMA ignore_check_constraints = 0")
