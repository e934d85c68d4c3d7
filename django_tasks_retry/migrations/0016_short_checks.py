"""The same checks in fewer words, on PostgreSQL, which reads the text of each anew for every statement.

Without a look at the rows that are there, under a lock that is short. The next migration looks at them.
"""

from django.db import migrations

TASK, RESULT = "django_tasks_retry_task", "django_tasks_retry_taskresult"
FIRST, LAST = "'1900-01-01 00:00+00'", "'9100-01-01 00:00+00'"
TASK_TIMES = "created_at, eta, slot, updated_at, started_at, last_attempt_at, lock_expires_at, finished_at"
RESULT_TIMES = "last_attempt_at, finished_at"
SHORT = {
    (TASK, "dtr_status_known"): "status = ANY ('{PENDING,RUNNING,SUCCESS,FAILED,CANCELLED}'::text[])",
    (TASK, "dtr_running_has_lease"): (
        "(status = 'RUNNING') = (locked_by IS NOT NULL) AND (locked_by IS NULL) = (lock_expires_at IS NULL)"
    ),
    (TASK, "dtr_finished_has_time"): (
        "(finished_at IS NOT NULL) = (status = ANY ('{SUCCESS,FAILED,CANCELLED}'::text[]))"
    ),
    (TASK, "dtr_running_spent_an_attempt"): "attempts >= 1 OR status <> ALL ('{RUNNING,SUCCESS}'::text[])",
    (TASK, "dtr_repeating_has_slot"): "\"interval\" = '0' OR slot IS NOT NULL",
    (TASK, "dtr_times_in_range"): f"LEAST({TASK_TIMES}) >= {FIRST} AND GREATEST({TASK_TIMES}) < {LAST}",
    (TASK, "dtr_numbers_in_range"): (
        "max_attempts >= 1 AND max_attempts <= 1000000 AND timeout > '0' AND timeout <= '1e9' "
        "AND (\"interval\" = '0' OR (\"interval\" >= '0.001' AND \"interval\" <= '1e9'))"
    ),
    (RESULT, "dtr_result_is_final"): "status = ANY ('{SUCCESS,FAILED,CANCELLED}'::text[])",
    (RESULT, "dtr_result_times_in_range"): (f"LEAST({RESULT_TIMES}) >= {FIRST} AND GREATEST({RESULT_TIMES}) < {LAST}"),
}
IMPLIED = ("attempts", "max_attempts", "refunds")
"""Columns whose being positive another check demands."""


def shorten(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        drop(schema_editor, *(f"{TASK}_{column}_check" for column in IMPLIED))
        add = "ALTER TABLE {} ADD CONSTRAINT {} CHECK ({}) NOT VALID"
        for (table, name), check in SHORT.items():
            schema_editor.execute(add.format(table, name, check), params=None)


def restore(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        drop(schema_editor)
        for model in (apps.get_model("django_tasks_retry", name) for name in ("Task", "TaskResult")):
            for constraint in model._meta.constraints:
                if (model._meta.db_table, constraint.name) in SHORT:
                    schema_editor.execute(constraint.create_sql(model, schema_editor), params=None)
        for column in IMPLIED:
            check = f"ADD CONSTRAINT {TASK}_{column}_check CHECK ({column} >= 0)"
            schema_editor.execute(f"ALTER TABLE {TASK} {check}", params=None)


def drop(schema_editor, *others):
    for table, name in (*SHORT, *((TASK, other) for other in others)):
        schema_editor.execute(f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {name}", params=None)


class Migration(migrations.Migration):
    dependencies = [("django_tasks_retry", "0015_ended_members")]

    operations = [migrations.RunPython(shorten, restore, elidable=False)]
