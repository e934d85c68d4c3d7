"""Migrations lead back as well as forth, and the guard goes and comes with them."""

from __future__ import annotations

from tests.example.programs import manage

THERE_AND_BACK = """
from django.core.management import call_command
from django.db.migrations.loader import MigrationLoader
from django_tasks_retry import guard
from example_project.shop.tasks import tell_warehouse

def migrate(*to):
    call_command("migrate", *to, verbosity=0)

ours = [name for app, name in MigrationLoader(None).disk_migrations if app == "django_tasks_retry"]
print("whole", not guard.missing("default"))
tell_warehouse.enqueue(1)
migrate("django_tasks_retry", min(ours))
print("refused", bool(guard.missing("default")))
migrate("django_tasks_retry")
print("whole again", not guard.missing("default"))
migrate("django_tasks_retry", "zero")
migrate("django_tasks_retry")
tell_warehouse.enqueue(2)
print("whole from nothing", not guard.missing("default"))
"""


def test_every_migration_can_be_undone_and_done_again(database_url):
    assert manage("migrate", DATABASE_URL=database_url).returncode == 0
    done = manage("shell", "-v", "0", "-c", THERE_AND_BACK, DATABASE_URL=database_url)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["whole True", "refused True", "whole again True", "whole from nothing True"]
