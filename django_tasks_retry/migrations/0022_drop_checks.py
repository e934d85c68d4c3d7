"""Look at the rows that were there before, while others go on writing; then drop the checks that the one stands for."""

from importlib import import_module

from django.db import migrations

ONE = import_module("django_tasks_retry.migrations.0021_one_check")


def forwards(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(f"ALTER TABLE {ONE.TASK} VALIDATE CONSTRAINT {ONE.NAME}", params=None)
        drops = ", ".join(f"DROP CONSTRAINT IF EXISTS {name}" for name in ONE.CHECKS)
        schema_editor.execute(f"ALTER TABLE {ONE.TASK} {drops}", params=None)


def backwards(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        adds = ", ".join(f"ADD CONSTRAINT {name} CHECK ({check})" for name, check in ONE.CHECKS.items())
        schema_editor.execute(f"ALTER TABLE {ONE.TASK} {adds}", params=None)


class Migration(migrations.Migration):
    dependencies = [("django_tasks_retry", "0021_one_check")]

    operations = [migrations.RunPython(forwards, backwards, elidable=False)]
