"""CHECK constraints: half of the contract. One that somebody dropped is found and restored, as a trigger is."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import CheckConstraint, Model

from .conditions import EVENT, RESULT, guarded

logger = logging.getLogger("django_tasks_retry")
SHORT: dict[tuple[str, str], str] = import_module("django_tasks_retry.migrations.0016_short_checks").SHORT
"""Checks that PostgreSQL has in fewer words than the models."""

ONE: Any = import_module("django_tasks_retry.migrations.0021_one_check")
"""The one check of tasks on PostgreSQL, and its function, which names the check of the model that a row breaks."""

ON_POSTGRESQL = """
SELECT c.relname, k.conname
FROM pg_constraint AS k JOIN pg_class AS c ON c.oid = k.conrelid
WHERE k.contype = 'c' AND c.relnamespace = quote_ident(current_schema())::regnamespace
"""
SOURCE = """
SELECT prosrc FROM pg_proc WHERE pronamespace = quote_ident(current_schema())::regnamespace AND proname = %s
"""
ON_SQLITE = "SELECT name, sql FROM sqlite_master WHERE type = 'table'"

# A row that breaks the check could not be moved any more, and would fail the statements that move others, too. Finished
# tasks never move. Written before the check comes back, by legal moves.
END_UNSOUND = """
WITH moved AS (
    UPDATE ONLY {ONE.TASK}
    SET status = 'CANCELLED', locked_by = NULL, lock_expires_at = NULL, moved_by = 'migrate',
        updated_at = statement_timestamp(), finished_at = statement_timestamp()
    WHERE status IN ('PENDING', 'RUNNING') AND ({sound}) IS FALSE
    RETURNING id, attempts, finished_at
), results AS (
    INSERT INTO {RESULT} (task_id, status, error, attempts, finished_at)
    SELECT id, 'CANCELLED', jsonb_build_object('message', '{REASON}', 'code', 'CANCELLED', 'actor', 'migrate'),
        attempts, finished_at
    FROM moved
), events AS (
    INSERT INTO {EVENT} (task_id, kind, ts, attempt, actor, data)
    SELECT id, 'task.cancelled', finished_at, attempts, 'migrate', jsonb_build_object('reason', '{REASON}') FROM moved
)
SELECT id FROM moved
"""
REASON = "its row breaks a check that had been dropped"

Checks = dict[tuple[str, str], tuple[type[Model], CheckConstraint]]


def declared(vendor: str) -> Checks:
    """Table and name → model and constraint. On PostgreSQL tasks have one for all of theirs."""
    checks = {
        (model._meta.db_table, check.name): (model, check)
        for model in guarded()
        for check in model._meta.constraints
        if isinstance(check, CheckConstraint)
    }
    if vendor == "sqlite":
        return checks
    [one, *_] = [value for (table, _), value in checks.items() if table == ONE.TASK]
    return {key: value for key, value in checks.items() if key[0] != ONE.TASK} | {(ONE.TASK, ONE.NAME): one}


def dropped(connection: BaseDatabaseWrapper) -> Checks:
    """Return the declared checks that the database does not have."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute(ON_SQLITE)
            tables = dict(cursor.fetchall())
            found = {key for key in declared("sqlite") if f'"{key[1]}" CHECK' in tables.get(key[0], "")}
        else:
            cursor.execute(ON_POSTGRESQL)
            found = set(cursor.fetchall())
            cursor.execute(SOURCE, [ONE.NAME])
            if cursor.fetchall() != [(ONE.SOURCE,)]:
                found.discard((ONE.TASK, ONE.NAME))
    return {key: value for key, value in declared(connection.vendor).items() if key not in found}


def restore(connection: BaseDatabaseWrapper) -> None:
    """Add checks that were dropped. On SQLite that remakes their tables, so no trigger may name one meanwhile."""
    absent = dropped(connection)
    if not absent:
        return
    if (ONE.TASK, ONE.NAME) in absent and connection.vendor == "postgresql":
        end_unsound(connection)
    with connection.schema_editor() as editor:
        for (table, name), (model, check) in absent.items():
            if connection.vendor == "sqlite":
                editor.add_constraint(model, check)
            elif name == ONE.NAME:
                editor.execute(f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {name}", params=None)
                for sql in ONE.ADD:
                    editor.execute(sql, params=None)
            else:
                # Rows that were written meanwhile must not keep `migrate` from ending: it holds for those to come.
                short = SHORT.get((table, name))
                add = f"ALTER TABLE {table} ADD CONSTRAINT {name} CHECK ({short})" if short else None
                editor.execute(f"{add or check.create_sql(model, editor)} NOT VALID", params=None)


def end_unsound(connection: BaseDatabaseWrapper) -> None:
    """Cancel unfinished tasks that break the check of tasks, and log them."""
    names = {"RESULT": RESULT, "EVENT": EVENT, "REASON": REASON, "sound": " AND ".join(ONE.SOUND.values())}
    with connection.cursor() as cursor:
        cursor.execute(END_UNSOUND.format(ONE=ONE, **names))
        for (task,) in cursor.fetchall():
            logger.error("task %s was cancelled: %s. Enqueue it anew.", task, REASON)
