"""The mixin in ordinary TestCases, on the default database; and the plugin in a project of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest
from django.db import connections, transaction
from django.test import TestCase, TransactionTestCase

from django_tasks_retry.models import Task
from django_tasks_retry.testing import TaskTestMixin
from django_tasks_retry.testing.harness import failure_report
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


A_USERS_FAILING_TEST = """
from tests.tasks import explode
from django.test import TestCase
from django_tasks_retry.testing import TaskTestMixin

def test_with_the_fixture(tasks):
    explode.enqueue("the mail server is down")
    assert [result.status for result in tasks.run_due()] == ["SUCCESSFUL"]

class Tests(TaskTestMixin, TestCase):
    def test_with_the_mixin(self):
        explode.enqueue("the printer is on fire")
        self.tasks.run_due()
        self.assertEqual(self.tasks.history(explode), ["successful"])

    def test_that_ran_no_task(self):
        self.assertEqual(self.tasks.enqueued(), [1])
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """Return pytest's output in a project with these tests."""
    tmp_path = tmp_path_factory.mktemp("users")
    (tmp_path / "test_user.py").write_text(A_USERS_TEST)
    (tmp_path / "test_failing.py").write_text(A_USERS_FAILING_TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-rN", "--ds=tests.settings"]
    command += ["-p", "django_tasks_retry.pytest_plugin"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TEST_", "PYTEST"))}
    told = {"PYTHONPATH": str(ROOT), "TEST_POSTGRESQL": "", "TEST_SQLITE_FOLDER": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment | told, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_the_plugin_gives_users_the_fixture(said):
    assert "3 failed, 2 passed" in said


def test_a_test_that_fails_shows_the_errors_of_its_tasks(said):
    """In the words of the task: what the test compares is only that it failed."""
    assert "explode(args=['the mail server is down']), attempt 1 of 5, failed with builtins.ValueError" in said
    assert "tasks that failed in this test" in said
    assert "explode(args=['the printer is on fire']), attempt 1 of 5, failed with builtins.ValueError" in said
    assert said.count("raise ValueError(message)") == 2
    assert said.lower().count("tasks that failed in this test") == 2


def test_only_the_latest_failures_are_shown():
    class Failure(NamedTuple):
        number: int

        def __str__(self) -> str:
            return f"failure {self.number}"

    assert failure_report([]) == ""
    told = failure_report([Failure(number) for number in range(7)])
    assert told.splitlines() == [
        "… 2 earlier failed attempts are left out",
        *(f"failure {number}" for number in range(2, 7)),
    ]


def test_the_plugin_is_announced_to_pytest_under_its_own_name():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name = "django_tasks_retry.pytest_plugin"
    assert project["entry-points"]["pytest11"] == {name: name}
