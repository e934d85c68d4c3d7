"""The mixin in ordinary TestCases, on the default database; and the plugin in a project of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

from django.db import connections, transaction
from django.test import TestCase, TransactionTestCase

from django_tasks_retry.models import Task
from django_tasks_retry.testing import TaskTestMixin
from tests import tasks as plain
from tests.backend import samples

ROOT = Path(__file__).resolve().parents[2]


class ReceiptTests(TaskTestMixin, TestCase):
    def setUp(self):
        samples.SEEN.clear()

    def test_a_receipt_survives_an_outage(self):
        result = samples.fail_twice.enqueue("down")
        self.tasks.assert_enqueued(samples.fail_twice, message="down")
        self.tasks.run_due()
        self.tasks.advance(minutes=1)
        self.tasks.run_due()
        self.tasks.run_until_idle()
        assert self.tasks.history(result) == ["failed", "failed", "successful"]

    def test_the_test_runs_in_one_transaction_with_its_tasks(self):
        assert connections["default"].in_atomic_block
        plain.noop.enqueue()
        self.tasks.run_due()
        assert connections["default"].in_atomic_block

    def test_nothing_is_left_from_another_test(self):
        assert self.tasks.enqueued() == []


class CommittedTests(TaskTestMixin, TransactionTestCase):
    def test_tasks_run_with_real_commits_too(self):
        with transaction.atomic():
            result = plain.add.enqueue(1, 2)
        self.tasks.run_due()
        assert Task.objects.get(pk=result.id).outcome.result == 3


A_USERS_TEST = """
from tests.tasks import add

def test_it(tasks):
    add.enqueue(1, 2)
    assert [result.return_value for result in tasks.run_due()] == [3]

def test_it_again(tasks):
    tasks.assert_not_enqueued(add)
"""


def test_the_plugin_gives_users_the_fixture(tmp_path):
    (tmp_path / "test_user.py").write_text(A_USERS_TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "django_tasks_retry.pytest_plugin", "--ds=tests.settings"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TEST_", "PYTEST"))}
    told = {"PYTHONPATH": str(ROOT), "TEST_POSTGRESQL": "", "TEST_SQLITE_FOLDER": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment | told, capture_output=True, text=True, check=False)
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_the_plugin_is_announced_to_pytest_under_its_own_name():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    name = "django_tasks_retry.pytest_plugin"
    assert project["entry-points"]["pytest11"] == {name: name}
