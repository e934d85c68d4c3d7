"""Look at the rows that were there before the bounds, while others go on writing: apart from what takes a lock."""

from django.db import migrations

BOUNDS = [
    ("django_tasks_retry_task", "dtr_running_has_lease"),
    ("django_tasks_retry_task", "dtr_times_in_range"),
    ("django_tasks_retry_task", "dtr_numbers_in_range"),
    ("django_tasks_retry_taskresult", "dtr_result_times_in_range"),
]


def forwards(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        for table, name in BOUNDS:
            schema_editor.execute(f"ALTER TABLE {table} VALIDATE CONSTRAINT {name}", params=None)


class Migration(migrations.Migration):
    dependencies = [("django_tasks_retry", "0003_bounds")]

    operations = [migrations.RunPython(forwards, migrations.RunPython.noop, elidable=False)]
