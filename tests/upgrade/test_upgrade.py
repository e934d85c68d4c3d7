"""From the recorded release to this tree and back by the documented commands: rows of every status, old workers.

`python -m tests.upgrade record` keeps the tree of a commit in this folder. Both trees have the example project.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.example.conftest import database_url, empty_postgresql  # noqa: F401 - fixtures
from tests.example.programs import ROOT, SECONDS, environment
from tests.example.test_migrations import COUNT, DONE, ENQUEUE, KINDS, PLANT, documented
from tests.upgrade.__main__ import ARCHIVE
from tests.worker.harness import wait_for

MORE = """
from datetime import timedelta
from django_tasks_retry import taskqueue
from django_tasks_retry.errors import Abort
from django_tasks_retry.models import Task
from example_project.shop.tasks import tell_warehouse
Task.objects.enqueue(tell_warehouse.func, args=[6], queue="emails", lane="tenant-2")
[lease] = taskqueue.claim("of-the-base", ["emails"])
taskqueue.fail_task(lease, Abort("no"))
Task.objects.enqueue(tell_warehouse.func, args=[7], queue="emails", max_attempts=3)
[held] = taskqueue.claim("of-the-base", ["emails"], lease=3600)
Task.objects.enqueue(tell_warehouse.func, args=[8], queue="emails", eta=timedelta(days=1))
"""
ROWS = """
import json
from django.db import connection
with connection.cursor() as cursor:
    for table, key in (("task", "id"), ("taskresult", "task_id"), ("taskevent", "id"), ("step", "id")):
        cursor.execute(f"SELECT * FROM django_tasks_retry_{table} ORDER BY {key}")
        names = [column[0] for column in cursor.description]
        for row in cursor.fetchall():
            print(json.dumps([table, dict(zip(names, map(str, row)))]))
"""
SCHEMA = """
import json
from django.db import connection
OURS = "relname LIKE 'django_tasks_retry%%' AND relnamespace = 'public'::regnamespace"
POSTGRESQL = {
    "columns": f"SELECT relname, attname, format_type(atttypid, atttypmod), attnotnull, pg_get_expr(adbin, adrelid), "
        f"attidentity FROM pg_attribute JOIN pg_class c ON c.oid = attrelid LEFT JOIN pg_attrdef "
        f"ON adrelid = attrelid AND adnum = attnum WHERE {OURS} AND attnum > 0 AND NOT attisdropped AND relkind = 'r'",
    "storage": f"SELECT relname, reloptions::text FROM pg_class WHERE {OURS} AND relkind IN ('r', 'i')",
    "indexes": "SELECT indexdef FROM pg_indexes WHERE tablename LIKE 'django_tasks_retry%%'",
    "constraints": f"SELECT conname, relname, pg_get_constraintdef(o.oid), convalidated FROM pg_constraint o "
        f"JOIN pg_class c ON c.oid = conrelid WHERE {OURS}",
    "triggers": f"SELECT relname, tgname, pg_get_triggerdef(t.oid), tgenabled FROM pg_trigger t "
        f"JOIN pg_class c ON c.oid = tgrelid WHERE {OURS} AND NOT tgisinternal",
    "statistics": "SELECT pg_get_statisticsobjdef(oid) FROM pg_statistic_ext WHERE stxname LIKE 'dtr_%%'",
    "functions": "SELECT proname, pg_get_function_arguments(oid), md5(prosrc), proconfig::text FROM pg_proc "
        "WHERE proname LIKE 'dtr_%%' OR proname LIKE 'django_tasks_retry%%'",
}
SQLITE = {
    "columns": "SELECT m.name, p.name, p.type, p.\\"notnull\\", p.pk FROM sqlite_master m, pragma_table_info(m.name) p "
        "WHERE m.type = 'table' AND m.name LIKE 'django_tasks_retry%%'",
    "indexes": "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name LIKE 'django_tasks_retry%%'",
    "triggers": "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'",
}
with connection.cursor() as cursor:
    for kind, sql in (SQLITE if connection.vendor == "sqlite" else POSTGRESQL).items():
        cursor.execute(sql)
        for row in cursor.fetchall():
            print(json.dumps([kind, *map(str, row)]))
"""
FRESH = """
from django.core.management import call_command
call_command("migrate", "django_tasks_retry", "zero", verbosity=0)
call_command("migrate", verbosity=0)
"""


class Tree:
    """A tree of the package with its example project, on the database of the test."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.env = environment(PYTHONPATH=str(folder), DATABASE_URL=url)

    def run(self, *words: str, code: int = 0) -> list[str]:
        done = subprocess.run(
            [sys.executable, "manage.py", *words], cwd=self.folder, env=self.env, capture_output=True, text=True,
            timeout=SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == code, (self.folder.name, words, done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout.splitlines()

    def shell(self, text: str) -> list[str]:
        return self.run("shell", "-v", "0", "-c", text)

    def rows(self) -> dict[tuple[str, str], dict[str, Any]]:
        found = map(json.loads, self.shell(ROWS))
        return {(table, row.get("id") or row["task_id"]): row for table, row in found}

    def schema(self) -> set[str]:
        """Everything of ours in the database, without the functions of statements: those of other releases stay."""
        return {line for line in self.shell(SCHEMA) if not line.startswith('["functions", "dtr_s_')}

    def last_migration(self) -> str:
        return max(path.name[:4] for path in (self.folder / "django_tasks_retry" / "migrations").glob("0*.py"))

    def worker(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "manage.py", "runworker", "--no-reload", "--exclude", "emails"]
        return subprocess.Popen(command, cwd=self.folder, env=self.env)

    def runs_one(self) -> None:
        [task] = self.shell(ENQUEUE)
        wait_for(lambda: self.shell(DONE.format(task)) == ["True"], "the task has run")


@pytest.fixture
def base(database_url: str, tmp_path: Path) -> Tree:  # noqa: F811
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path / "base", filter="data")
    return Tree(tmp_path / "base", database_url)


@pytest.fixture
def this(database_url: str, tmp_path: Path) -> Tree:  # noqa: F811
    for name in ("django_tasks_retry", "example_project"):
        ignored = shutil.ignore_patterns("__pycache__", "*.sqlite3*")
        shutil.copytree(ROOT / name, tmp_path / "this" / name, ignore=ignored)
    shutil.copy(ROOT / "manage.py", tmp_path / "this")
    return Tree(tmp_path / "this", database_url)


def unchanged(before: dict[Any, Any], after: dict[Any, Any]) -> list[Any]:
    """Return the rows that are gone, and columns of finished tasks and of history that differ."""
    wrong = [key for key in before if key not in after]
    for key, row in before.items():
        if key in after and row.get("finished_at") != "None":
            kept = {name: value for name, value in row.items() if name in after[key]}
            wrong += [(key, name) for name, value in kept.items() if after[key][name] != value]
    return wrong


def test_every_row_goes_forth_and_back_while_old_workers_run(base: Tree, this: Tree) -> None:
    """By the commands of the page on upgrades. The schema is that of a fresh installation, there and here."""
    base.run("migrate")
    base.shell(PLANT)
    base.shell(MORE)
    statuses = {row["status"] for (table, _), row in base.rows().items() if table == "task"}
    assert statuses == {"PENDING", "RUNNING", "SUCCESS", "FAILED", "CANCELLED"}
    assert all(int(line.split()[1]) for line in base.shell(COUNT) if line.split()[0] in KINDS)
    of_base, before = base.schema(), base.rows()
    old = base.worker()
    try:
        base.runs_one()
        this.run("migrate")
        upgraded = this.schema()
        base.runs_one()
        this.runs_one()
        new = this.worker()
        try:
            old.terminate()
            assert old.wait(SECONDS) == 0, "an old worker ends in good order beside a new one"
            this.runs_one()
        finally:
            new.terminate()
            assert new.wait(SECONDS) == 0
    finally:
        old.kill()
        old.wait()
    assert unchanged(before, this.rows()) == []
    this.run("tasks", "verify", "--all")
    this.run("check", "--database", "default")
    # Back
    back, _install, forth = documented()
    this.run(*back[1:-1], base.last_migration())
    base.run(*forth[1:])
    assert unchanged(before, base.rows()) == []
    assert base.schema() == of_base
    base.run("check", "--database", "default")
    base.run("tasks", "verify", "--all")
    base.run("runworker", "--drain", "--exclude", "emails")
    # A fresh installation of this tree
    this.shell(FRESH)
    assert this.schema() == upgraded
