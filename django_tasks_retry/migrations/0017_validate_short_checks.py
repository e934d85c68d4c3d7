"""Look at the rows that were there before, while others go on writing: apart from what takes a lock."""

from importlib import import_module

from django.db import migrations

SHORT = import_module("django_tasks_retry.migrations.0016_short_checks").SHORT


def forwards(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        for table, name in SHORT:
            schema_editor.execute(f"ALTER TABLE {table} VALIDATE CONSTRAINT {name}", params=None)


class Migration(migrations.Migration):
    dependencies = [("django_tasks_retry", "0016_short_checks")]

    operations = [migrations.RunPython(forwards, migrations.RunPython.noop, elidable=False)]
