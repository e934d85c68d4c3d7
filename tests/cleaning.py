"""Empty tables after a test that commits.

Django's own flush empties every table of every database, then creates content types and permissions again and runs the
receivers of `post_migrate`: about a second for each test. Content types and permissions do not change in a test, and
most tables of most tests are empty.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from django.core.management.color import no_style
from django.db import connections
from django.test import TransactionTestCase

from django_tasks_retry import guard
from django_tasks_retry.models import Step, Task, TaskEvent, TaskResult
from django_tasks_retry.taskqueue.engines import statements

KEPT = {"django_migrations", "django_content_type", "auth_permission"}
TOGETHER = [model._meta.db_table for model in (Task, TaskResult, TaskEvent, Step)]
"""The guard refuses a TRUNCATE of some of these that leaves rows in others."""


def empty_tables(test: Any) -> None:
    """Stand in for TransactionTestCase._fixture_teardown."""
    for alias in test._databases_names(include_mirrors=False):
        if filled := filled_tables(alias):
            operations = connections[alias].ops
            tables = sorted({*filled, *TOGETHER})
            operations.execute_sql_flush(operations.sql_flush(no_style(), tables, allow_cascade=True))
        guard.install(alias)  # a test may have removed it
        statements.install_after_migrate(alias)


def filled_tables(alias: str) -> list[str]:
    tables = known_tables(alias)
    parts = [f"SELECT '{table}' WHERE EXISTS (SELECT 1 FROM {table})" for table in tables]
    with connections[alias].cursor() as cursor:
        cursor.execute(" UNION ALL ".join(parts))
        return [table for (table,) in cursor.fetchall()]


@cache
def known_tables(alias: str) -> list[str]:
    return sorted(set(connections[alias].introspection.django_table_names(only_existing=True)) - KEPT)


def install() -> None:
    TransactionTestCase._fixture_teardown = empty_tables
