"""Changes of one task to its connection never reach the next."""

from __future__ import annotations

import signal

import pytest
from django.db import connections

from django_tasks_retry.models import Task

from . import tasks
from .harness import story, wait_until_finished

LEFT = {
    "transaction open": (tasks.leave_transaction_open, "SUCCESS"),
    "transaction broken": (tasks.leave_transaction_broken, "SUCCESS"),
    "connection closed": (tasks.leave_connection_closed, "SUCCESS"),
    "transaction open by a coroutine": (tasks.aleave_transaction_open, "SUCCESS"),
}
ON_POSTGRESQL = {"settings": (tasks.leave_settings, "SUCCESS")}


@pytest.mark.fault("session_state_left_by_tasks")
@pytest.mark.no_pooler("a pooler in transaction mode gives the settings of one session to the next")
def test_the_next_task_finds_a_fresh_connection(start, effects, committed):
    postgresql = connections[committed].vendor == "postgresql"
    start("--threads", "1")
    seen: list[str] = []
    for name, (function, status) in (LEFT | (ON_POSTGRESQL if postgresql else {})).items():
        left = wait_until_finished(Task.objects.enqueue(function))
        assert (name, left.status) == (name, status)
        found = wait_until_finished(Task.objects.enqueue(tasks.use_database, [name]))
        settings = '"$user", public 0' if postgresql else ""
        assert found.status == "SUCCESS", (name, found.last_error)
        assert (name, found.outcome.result) == (name, [True, False, sorted(seen), settings])
        seen.append(name)
        counted = wait_until_finished(Task.objects.enqueue(tasks.ause_database, [f"{name} async"]))
        assert counted.status == "SUCCESS", (name, counted.last_error)
        seen.append(f"{name} async")


def test_a_language_ends_with_its_task_and_a_program_can_be_ended(start, effects):
    Task.objects.enqueue(tasks.speak_german)
    language, program = Task.objects.enqueue(tasks.say_language), Task.objects.enqueue(tasks.start_program)
    assert start("--drain", "--threads", "1").exit_code() == 0
    assert wait_until_finished(language).outcome.result == ["en-us", "America/Chicago"]
    assert wait_until_finished(program).outcome.result == -signal.SIGTERM


@pytest.mark.parametrize("function", [tasks.use_database, tasks.ause_database], ids=["thread", "coroutine"])
def test_a_connection_that_the_server_ended_costs_no_attempt(start, effects, committed, function):
    if connections[committed].vendor != "postgresql":
        pytest.skip("SQLite has no server")
    start("--threads", "1")
    wait_until_finished(Task.objects.enqueue(function, ["before"]))
    with connections[committed].cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )
        assert cursor.fetchone()[0] >= 1
    task = wait_until_finished(Task.objects.enqueue(function, ["after"]))
    assert (task.status, story(task)) == ("SUCCESS", ["running", "completed"])
