"""Installing the guard, and missing it where it is not whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import connections, router, transaction

from ..errors import GuardMissing, NotMigrated
from ..models import Task
from .conditions import EVENT, RESULT, STEP, TASK, exists, unfinished
from .postgresql import install_on_postgresql, missing_on_postgresql, remove_from_postgresql
from .sqlite import install_on_sqlite, missing_on_sqlite, remove_from_sqlite

# Results beside unfinished tasks, from a time without this guard. Their tasks could never end.
LEFT = exists(f"{TASK} AS t", f"t.id = {RESULT}.task_id AND {unfinished('t')}")
FORGET_STRAYS = f"DELETE FROM {RESULT} WHERE {LEFT}"  # noqa: S608 - names of our own


def install(using: str) -> None:
    """Put the guard in place where it is missing, disabled or of another version."""
    if not missing(using):
        return
    connection = connections[using]
    with transaction.atomic(using=using):
        if connection.vendor == "sqlite":
            install_on_sqlite(connection)
        else:
            install_on_postgresql(connection)
        with connection.cursor() as cursor:
            cursor.execute(FORGET_STRAYS)


def missing(using: str) -> set[str]:
    """The names of the triggers that are absent, disabled or of another version; and of the clock."""
    connection = connections[using]
    if connection.vendor == "sqlite":
        return missing_on_sqlite(connection)
    return missing_on_postgresql(connection)


def ensure(using: str) -> None:
    """Refuse to go on without the tables, or without the guard."""
    if not has_tables(using):
        raise NotMigrated(using)
    absent = missing(using)
    if absent:
        raise GuardMissing(
            f"Database {using!r} does not enforce the task contract: {', '.join(sorted(absent))} missing, disabled or "
            "of another version. Run manage.py migrate, which installs the guard."
        )


def remove_before_migrate(using: str, plan: Sequence[tuple[Any, bool]] = (), **_: Any) -> None:
    """Receiver of `pre_migrate`: tables may be remade, or lose columns that triggers name. Reinstalled afterwards."""
    steps = [backwards for migration, backwards in plan if migration.app_label == Task._meta.app_label]
    connection = connections[using]
    if steps and connection.vendor == "sqlite":
        remove_from_sqlite(connection)
    elif any(steps) and connection.vendor == "postgresql":
        remove_from_postgresql(connection)


def install_after_migrate(using: str, **_: Any) -> None:
    """Receiver of `post_migrate`."""
    if is_migrated(using):
        install(using)


def is_migrated(using: str) -> bool:
    """Whether our tables are there, and of this version: another app may be migrated alone, or ours back."""
    if not router.allow_migrate_model(using, Task) or connections[using].vendor not in {"sqlite", "postgresql"}:
        return False
    return has_tables(using) and has_columns(using)


def has_tables(using: str) -> bool:
    connection = connections[using]
    with connection.cursor() as cursor:
        return {TASK, RESULT, EVENT, STEP} <= set(connection.introspection.table_names(cursor))


def has_columns(using: str) -> bool:
    """Not where it was migrated back to an older version, whose own guard must be installed by its own code."""
    connection = connections[using]
    with connection.cursor() as cursor:
        there = {column.name for column in connection.introspection.get_table_description(cursor, TASK)}
    return there >= {field.column for field in Task._meta.concrete_fields}
