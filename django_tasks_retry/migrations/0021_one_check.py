"""One check of the table of tasks on PostgreSQL, by a function whose plan a session keeps.

PostgreSQL reads the text of each check anew for every statement: the thirteen took 80 µs of the 220 that an INSERT of
one task took. The function says the same, and names the check that a row breaks. The rows that are there are not read
yet, so the lock is short. The next migration reads them, and drops the others.
"""

import re
from importlib import import_module

from django.db import migrations

TASK, NAME = "django_tasks_retry_task", "dtr_task_is_sound"
CHECKS = {
    name: check
    for (table, name), check in import_module("django_tasks_retry.migrations.0016_short_checks").SHORT.items()
    if table == TASK
} | {
    "dtr_attempts_within_budget": "attempts <= (max_attempts + refunds)",
    "dtr_pending_has_budget": "status <> 'PENDING' OR attempts < (max_attempts + refunds)",
    "dtr_refunds_within_attempts": "refunds >= 0 AND refunds <= attempts",
    "dtr_priority_in_range": "priority >= '-100' AND priority <= 100",
    f"{TASK}_crashes_check": "crashes >= 0",
}
"""The conditions of the checks, in few words."""

TIMES = "created_at, eta, slot, updated_at, started_at, last_attempt_at, lock_expires_at, finished_at"
ARGUMENTS = {
    "text": "status, locked_by", "int": "attempts, max_attempts, refunds, priority, crashes",
    "float8": 'timeout, "interval"', "timestamptz": TIMES,
}  # fmt: skip
OPERATOR = re.compile(r" (=|<>|<=|>=|<|>|\+) ")
BODY = """
BEGIN
  IF ({all}) IS NOT FALSE THEN RETURN TRUE; END IF;
  RAISE EXCEPTION 'new row for relation "{table}" violates check constraint "%"', CASE {each} END
    USING ERRCODE = 'check_violation';
END """


def in_full(text):
    """Name operators in full, so that nobody's search_path changes what they mean."""
    return OPERATOR.sub(r" OPERATOR(pg_catalog.\1) ", text)


SOUND = {name: f"({in_full(check)})" for name, check in CHECKS.items()}
SOURCE = BODY.format(
    table=TASK,
    all=" AND ".join(SOUND.values()),
    each=" ".join(f"WHEN {check} IS FALSE THEN '{name}'" for name, check in SOUND.items()),
)
CREATE = (
    f"CREATE OR REPLACE FUNCTION {NAME}("
    + ", ".join(f"{name} {kind}" for kind, names in ARGUMENTS.items() for name in names.split(", "))
    + f") RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $check${SOURCE}$check$"
)
GRANT = f"GRANT EXECUTE ON FUNCTION {NAME} TO PUBLIC"
CALL = f"{NAME}({', '.join(ARGUMENTS.values())})"
ADD = (CREATE, GRANT, f"ALTER TABLE {TASK} ADD CONSTRAINT {NAME} CHECK ({CALL}) NOT VALID")


def add(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        for sql in ADD:
            schema_editor.execute(sql, params=None)


def drop(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(f"ALTER TABLE {TASK} DROP CONSTRAINT IF EXISTS {NAME}", params=None)
        schema_editor.execute(f"DROP FUNCTION IF EXISTS {NAME}", params=None)


class Migration(migrations.Migration):
    dependencies = [("django_tasks_retry", "0020_flow_limits")]

    operations = [migrations.RunPython(add, drop, elidable=False)]
