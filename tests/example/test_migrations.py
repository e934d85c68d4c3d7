"""Migrations lead back as well as forth, and the guard goes and comes with them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.example.programs import ROOT, SECONDS, environment, manage
from tests.legs import ASCII
from tests.worker.harness import wait_for

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


@pytest.mark.parametrize("command", [["migrate"], ["tasksql", "statements"]])
def test_commands_read_their_files_in_an_ascii_locale(database_url, command):
    done = manage(*command, DATABASE_URL=database_url, **ASCII)
    assert done.returncode == 0, done.stderr


LAST = "0002"
"""The last migration of this version, to which the next one goes back."""

NEXT = """
from django.db import migrations, models

class Migration(migrations.Migration):
    dependencies = [("django_tasks_retry", "0002_postgresql")]
    operations = [
        migrations.AddField("task", "note", models.CharField(max_length=9, default="", db_default="")),
        migrations.AddField("worker", "zone", models.CharField(max_length=9, null=True)),
        migrations.AddIndex("task", models.Index(
            name="dtr_notes", fields=["note"], condition=models.Q(note__gt=""),
        )),
    ]
"""

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


@pytest.fixture
def next_version(tmp_path: Path) -> Path:
    """This tree with another migration, and with a guard that says one thing in other words."""
    folder = tmp_path / "next"
    for name in ("django_tasks_retry", "example_project"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.sqlite3*"))
    shutil.copy(ROOT / "manage.py", folder)
    (folder / "django_tasks_retry" / "migrations" / "0003_next.py").write_text(NEXT)
    conditions = folder / "django_tasks_retry" / "guard" / "conditions.py"
    conditions.write_text(
        conditions.read_text().replace("a finished task never changes", "finished tasks never change")
    )
    return folder


def of_next(folder: Path, url: str, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=folder,
        env=environment(PYTHONPATH=str(folder), DATABASE_URL=url),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)


def of_this(url: str, *arguments: str) -> None:
    done = manage(*arguments, DATABASE_URL=url)
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)


def test_rows_of_every_kind_go_forth_and_back(database_url, next_version):
    """By the commands of the page on upgrades."""
    of_this(database_url, "migrate")
    shell(PLANT, database_url)
    before = shell(COUNT, database_url)
    assert all(int(line.split()[1]) for line in before if line.split()[0] in KINDS)
    back, _install, forth = documented()
    assert back == ["manage.py", "migrate", "django_tasks_retry", LAST]
    of_next(next_version, database_url, "migrate")
    of_next(next_version, database_url, "tasks", "verify", "--all")
    assert manage("check", "--database", "default", DATABASE_URL=database_url).returncode == 1
    of_next(next_version, database_url, *back[1:])
    of_this(database_url, *forth[1:])
    assert shell(COUNT, database_url) == before
    for command in (["check", "--database", "default"], ["tasks", "verify", "--all"], ["runworker", "--drain"]):
        of_this(database_url, *command)


ENQUEUE = "from example_project.shop.tasks import tell_warehouse; print(tell_warehouse.enqueue({}).id)"
DONE = "from django_tasks_retry.models import Task; print(Task.objects.filter(pk='{}', status='SUCCESS').exists())"


@pytest.mark.long
def test_a_worker_of_this_version_goes_on_while_the_next_one_migrates(database_url, next_version):
    of_this(database_url, "migrate")
    shell(PLANT, database_url)
    worker = subprocess.Popen(
        [sys.executable, "manage.py", "runworker", "--no-reload"], cwd=ROOT, env=environment(DATABASE_URL=database_url)
    )
    try:
        is_run(database_url, 1)
        of_next(next_version, database_url, "migrate")
        is_run(database_url, 2)
    finally:
        worker.terminate()
        assert worker.wait(SECONDS) == 0
    of_next(next_version, database_url, "runworker", "--drain")
    of_next(next_version, database_url, "tasks", "verify", "--all")


def is_run(url: str, number: int) -> None:
    [task] = shell(ENQUEUE.format(number), url)
    wait_for(lambda: shell(DONE.format(task), url) == ["True"], "the task has run")


KINDS = [
    f"django_tasks_retry_{name}"
    for name in ("task", "taskresult", "taskevent", "step", "signal", "schedule", "queue", "lanestate", "operatorevent")
]
