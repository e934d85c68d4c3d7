"""CHECK constraints: half of the contract. One that is absent is found and added, as a trigger is.

On PostgreSQL one check by a function, whose plan a session keeps, stands for all of the table of tasks: PostgreSQL
reads the text of each check anew for every statement, and the thirteen took 80 µs of the 220 that an INSERT of one task
took. The function names the check that a row breaks.
"""

import logging
from contextlib import suppress

from django.db import IntegrityError, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import CheckConstraint, Model

from .conditions import EVENT, RESULT, TASK, guarded
from .postgresql import in_full

logger = logging.getLogger("django_tasks_retry")

ONE = "dtr_task_is_sound"
FIRST, LAST = "'1900-01-01 00:00+00'", "'9100-01-01 00:00+00'"
TIMES = "created_at, eta, slot, updated_at, started_at, last_attempt_at, lock_expires_at, finished_at"
RESULT_TIMES = "last_attempt_at, finished_at"
CHECKS = {
    "dtr_status_known": "status = ANY ('{PENDING,RUNNING,SUCCESS,FAILED,CANCELLED}'::text[])",
    "dtr_running_has_lease": (
        "(status = 'RUNNING') = (locked_by IS NOT NULL) AND (locked_by IS NULL) = (lock_expires_at IS NULL)"
    ),
    "dtr_finished_has_time": "(finished_at IS NOT NULL) = (status = ANY ('{SUCCESS,FAILED,CANCELLED}'::text[]))",
    "dtr_running_spent_an_attempt": "attempts >= 1 OR status <> ALL ('{RUNNING,SUCCESS}'::text[])",
    "dtr_repeating_has_slot": "\"interval\" = '0' OR slot IS NOT NULL",
    "dtr_times_in_range": f"LEAST({TIMES}) >= {FIRST} AND GREATEST({TIMES}) < {LAST}",
    "dtr_numbers_in_range": (
        "max_attempts >= 1 AND max_attempts <= 1000000 AND timeout > '0' AND timeout <= '1e9' "
        "AND (\"interval\" = '0' OR (\"interval\" >= '0.001' AND \"interval\" <= '1e9'))"
    ),
    "dtr_attempts_within_budget": "attempts <= (max_attempts + refunds)",
    "dtr_pending_has_budget": "status <> 'PENDING' OR attempts < (max_attempts + refunds)",
    "dtr_refunds_within_attempts": "refunds >= 0 AND refunds <= attempts",
    "dtr_priority_in_range": "priority >= '-100' AND priority <= 100",
    f"{TASK}_crashes_check": "crashes >= 0",
}
"""The checks of tasks, in fewer words than those of the models."""

SHORT = {
    (RESULT, "dtr_result_is_final"): "status = ANY ('{SUCCESS,FAILED,CANCELLED}'::text[])",
    (RESULT, "dtr_result_times_in_range"): f"LEAST({RESULT_TIMES}) >= {FIRST} AND GREATEST({RESULT_TIMES}) < {LAST}",
}
ARGUMENTS = {
    "text": "status, locked_by", "int": "attempts, max_attempts, refunds, priority, crashes",
    "float8": 'timeout, "interval"', "timestamptz": TIMES,
}  # fmt: skip
SOUND = {name: f"({in_full(check)})" for name, check in CHECKS.items()}
IS_SOUND = " AND ".join(SOUND.values())
SOURCE = f"""
BEGIN
  IF ({IS_SOUND}) IS NOT FALSE THEN RETURN TRUE; END IF;
  RAISE EXCEPTION 'new row for relation "{TASK}" violates check constraint "%"', CASE {
    " ".join(f"WHEN {check} IS FALSE THEN '{name}'" for name, check in SOUND.items())
} END
    USING ERRCODE = 'check_violation';
END """
CREATE = (
    f"CREATE OR REPLACE FUNCTION {ONE}("
    + ", ".join(f"{name} {kind}" for kind, names in ARGUMENTS.items() for name in names.split(", "))
    + f") RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $check${SOURCE}$check$"
)
ADD = (
    f"ALTER TABLE {TASK} DROP CONSTRAINT IF EXISTS {ONE}",
    CREATE,
    f"GRANT EXECUTE ON FUNCTION {ONE} TO PUBLIC",
    f"ALTER TABLE {TASK} ADD CONSTRAINT {ONE} CHECK ({ONE}({', '.join(ARGUMENTS.values())})) NOT VALID",
)

ON_POSTGRESQL = """
SELECT c.relname, k.conname
FROM pg_constraint AS k JOIN pg_class AS c ON c.oid = k.conrelid
WHERE k.contype = 'c' AND c.relnamespace = quote_ident(current_schema())::regnamespace
"""
FUNCTION = """
SELECT prosrc FROM pg_proc WHERE pronamespace = quote_ident(current_schema())::regnamespace AND proname = %s
"""
ON_SQLITE = "SELECT name, sql FROM sqlite_master WHERE type = 'table'"

# A row that breaks the check could not be moved any more, and would fail the statements that move others, too. Finished
# tasks never move. Written before the check comes back, by legal moves.
END_UNSOUND = """
WITH moved AS (
    UPDATE ONLY {TASK}
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
    one = next(value for (table, _), value in checks.items() if table == TASK)
    return {key: value for key, value in checks.items() if key[0] != TASK} | {(TASK, ONE): one}


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
            cursor.execute(FUNCTION, [ONE])
            if cursor.fetchall() != [(SOURCE,)]:
                found.discard((TASK, ONE))
    return {key: value for key, value in declared(connection.vendor).items() if key not in found}


def restore(connection: BaseDatabaseWrapper) -> None:
    """Add checks that are absent. On SQLite that remakes their tables, so no trigger may name one meanwhile."""
    absent = dropped(connection)
    if connection.vendor == "sqlite":
        with connection.schema_editor() as editor:
            for model, check in absent.values():
                editor.add_constraint(model, check)
        return
    if (TASK, ONE) in absent:
        end_unsound(connection)
    with connection.schema_editor() as editor:
        for (table, name), (model, check) in absent.items():
            short = SHORT.get((table, name))
            add = f"ALTER TABLE {table} ADD CONSTRAINT {name} CHECK ({short})" if short else None
            for sql in ADD if name == ONE else (f"{add or check.create_sql(model, editor)} NOT VALID",):
                editor.execute(sql, params=None)
    for table, name in absent:
        validate(connection, table, name)


def validate(connection: BaseDatabaseWrapper, table: str, name: str) -> None:
    """Read the rows that are there, while others go on writing: adding the check took a lock, but for a moment.

    Rows that break it must not keep `migrate` from ending: the check holds for those to come.
    """
    with suppress(IntegrityError), transaction.atomic(connection.alias), connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} VALIDATE CONSTRAINT {name}")


def end_unsound(connection: BaseDatabaseWrapper) -> None:
    """Cancel unfinished tasks that break the check of tasks, and log them."""
    with connection.cursor() as cursor:
        cursor.execute(END_UNSOUND.format(TASK=TASK, RESULT=RESULT, EVENT=EVENT, REASON=REASON, sound=IS_SOUND))
        for (task,) in cursor.fetchall():
            logger.error("task %s was cancelled: %s. Enqueue it anew.", task, REASON)
