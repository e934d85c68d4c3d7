"""Migrations lead back as well as forth, and the guard goes and comes with them."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.example.programs import ROOT, environment, manage

THERE_AND_BACK = """
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django_tasks_retry import guard
from example_project.shop.tasks import tell_warehouse

def migrate(*to):
    call_command("migrate", *to, verbosity=0)

def left():
    names = "SELECT name FROM sqlite_master" if connection.vendor == "sqlite" else (
        "SELECT proname FROM pg_proc UNION SELECT relname FROM pg_class UNION SELECT stxname FROM pg_statistic_ext"
    )
    with connection.cursor() as cursor:
        cursor.execute(names)
        return sorted(name for name, in cursor.fetchall() if name.startswith(("dtr_", "django_tasks_retry")))

ours = [name for app, name in MigrationLoader(None).disk_migrations if app == "django_tasks_retry"]
print("whole", not guard.missing("default"))
tell_warehouse.enqueue(1)
migrate("django_tasks_retry", min(ours))
print("refused", bool(guard.missing("default")))
migrate("django_tasks_retry")
print("whole again", not guard.missing("default"))
migrate("django_tasks_retry", "zero")
print("left", left())
migrate("django_tasks_retry")
tell_warehouse.enqueue(2)
print("whole from nothing", not guard.missing("default"))
"""


def test_every_migration_can_be_undone_and_done_again(database_url):
    assert manage("migrate", DATABASE_URL=database_url).returncode == 0
    done = manage("shell", "-v", "0", "-c", THERE_AND_BACK, DATABASE_URL=database_url)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "whole True", "refused True", "whole again True", "left []", "whole from nothing True",
    ]  # fmt: skip


BEFORE = "8a8a746"
"""The version before, and its last migration."""
ITS_LAST = "0017"

PLANT = """
from datetime import timedelta
from django_tasks_retry import call, signal, taskqueue
from django_tasks_retry.models import Schedule, Task
from django_tasks_retry.testing import Tasks
from example_project.shop.tasks import tell_warehouse

for n in range(3):
    tell_warehouse.enqueue(n)
Task.objects.enqueue_many([call(tell_warehouse, n) for n in range(2)], then=call(tell_warehouse, 9))
Tasks().run_due()
hour = timedelta(hours=1)
Task.objects.enqueue(tell_warehouse.func, args=[5], unique_key="k", lane="tenant-1", expires=hour).cancel()
Task.objects.order_by("pk").first().retry(by="ops")
Schedule.objects.create(name="nightly", task=tell_warehouse, every=hour, args=[1], misfire_grace=hour)
taskqueue.tick()
signal("go", 1)
taskqueue.pause("reports", by="ops", reason="x")
taskqueue.pause("tenant-1", kind="lane", by="ops", reason="x")
"""
COUNT = """
from django.db import connection
with connection.cursor() as cursor:
    for table in sorted(connection.introspection.table_names()):
        if table.startswith("django_tasks_retry"):
            cursor.execute(f"SELECT count(*) FROM {table}")
            print(table, cursor.fetchone()[0])
"""


def shell(code: str, url: str) -> list[str]:
    done = manage("shell", "-v", "0", "-c", code, DATABASE_URL=url)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def documented() -> list[list[str]]:
    """The commands of the page on upgrades, from the point where it goes back."""
    page = (ROOT / "docs" / "howto" / "upgrade.rst").read_text()
    commands = re.findall(r"\$ python (.*)", page[page.index("To downgrade") :])
    return [command.split() for command in commands]


def test_rows_of_every_kind_go_back_and_forth(database_url):
    assert manage("migrate", DATABASE_URL=database_url).returncode == 0
    shell(PLANT, database_url)
    before = shell(COUNT, database_url)
    assert all(int(line.split()[1]) for line in before if line.split()[0] in KINDS)
    back, _install, forth = documented()
    assert back == ["manage.py", "migrate", "django_tasks_retry", ITS_LAST]
    for command in (back[1:], forth[1:]):
        done = manage(*command, DATABASE_URL=database_url)
        assert done.returncode == 0, done.stderr
        assert shell(COUNT, database_url) == before
    assert manage("tasks", "verify", "--all", DATABASE_URL=database_url).returncode == 0
    assert manage("runworker", "--drain", DATABASE_URL=database_url).returncode == 0


KINDS = [
    f"django_tasks_retry_{name}"
    for name in ("task", "taskresult", "taskevent", "step", "signal", "schedule", "queue", "lanestate", "operatorevent")
]


@pytest.fixture
def version_before(tmp_path: Path) -> Path:
    made = subprocess.run(["git", "archive", BEFORE], cwd=ROOT, capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"this clone does not go back to {BEFORE}")
    with tarfile.open(fileobj=io.BytesIO(made.stdout)) as archive:
        archive.extractall(tmp_path / "before", filter="data")
    return tmp_path / "before"


@pytest.mark.long
def test_the_version_before_works_after_the_documented_way_back(database_url, version_before):
    """Its own code, on the rows that this version wrote."""

    def old(*arguments: str) -> subprocess.CompletedProcess[str]:
        path = {"PYTHONPATH": str(version_before), "DATABASE_URL": database_url}
        command = [sys.executable, "manage.py", *arguments]
        given = {"cwd": version_before, "env": environment(**path), "capture_output": True, "text": True}
        return subprocess.run(command, timeout=90, check=False, **given)  # type: ignore[call-overload,no-any-return]

    assert manage("migrate", DATABASE_URL=database_url).returncode == 0
    shell(PLANT, database_url)
    back, _install, forth = documented()
    assert manage(*back[1:], DATABASE_URL=database_url).returncode == 0
    for command in (
        forth[1:],
        ["check", "--database", "default"],
        ["runworker", "--drain"],
        ["tasks", "verify", "--all"],
    ):
        done = old(*command)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
    assert manage("migrate", DATABASE_URL=database_url).returncode == 0
    assert manage("tasks", "verify", "--all", DATABASE_URL=database_url).returncode == 0
