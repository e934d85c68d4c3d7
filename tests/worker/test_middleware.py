from __future__ import annotations

import pytest
from cryptography.fernet import Fernet

from django_tasks_retry.compat import framework_logger
from django_tasks_retry.models import Schedule, Task, TaskEvent

from . import tasks
from .harness import wait_until_finished

REPORTING = "django_tasks_retry.contrib.sentry.Reporting"
MARKING = "tests.worker.marking.Marking"


def test_middleware_runs_where_the_function_does_and_at_each_turn_of_the_workers_life(start, effects):
    for function in (tasks.tell_thread, tasks.tell_task):
        Task.objects.enqueue(function)
    worker = start("--drain", middleware=[MARKING])
    assert worker.exit_code() == 0
    lines = effects.lines()
    for name in ("tell_thread", "tell_task"):
        [around] = [line.split()[2:] for line in lines if line.startswith(f"around {name}")]
        [ran] = [line.split()[2:] for line in lines if line.startswith(f"ran {name}")]
        assert around == ran
        assert f"left {name} SUCCESS" in lines
    turns = [line.split() for line in lines if "start" in line or "ending" in line]
    assert [" ".join(words[:2]) for words in turns] == ["worker started", "child started", "child ending"]
    assert turns[0][3] == str(worker.pid)
    assert turns[1][2:] == turns[2][2:]
    assert turns[1][2].startswith(turns[0][2])


@pytest.mark.fault("middleware_hangs")
def test_middleware_that_hangs_is_bounded_by_the_timeout_of_the_attempt(start, effects):
    task = Task.objects.enqueue(tasks.canary, max_attempts=1, timeout=0.5)
    start("--drain", middleware=[MARKING, "tests.worker.marking.Slow"])
    assert wait_until_finished(task).last_error["code"] == "TIMEOUT"
    assert "left canary None" in effects.lines()


def test_what_a_failed_attempt_logged_is_on_its_event(start, effects):
    for function in (tasks.warn_and_fail, tasks.warn_and_fail_async):
        Task.objects.enqueue(function, max_attempts=1)
    assert start("--drain").exit_code() == 0
    for event in TaskEvent.objects.filter(kind="task.failed"):
        assert event.data["log"].endswith("WARNING shop: the end is near")
    assert TaskEvent.objects.filter(kind="task.failed").count() == 2


@pytest.mark.fault("failure_reported_twice")
def test_with_reporting_each_final_failure_reaches_sentry_once_whoever_recorded_it(start, effects):
    """The first is reported by its own attempt, the second, whose process is gone, by the supervisor's signals."""
    for function in (tasks.system_exit, tasks.exit_at_once):
        Task.objects.enqueue(function, max_attempts=1)
        worker = start("--drain", variables={"WORKER_SENTRY": "1"}, middleware=[REPORTING])
        assert worker.exit_code() == 0
    told = [line for line in effects.lines() if line.startswith("sentry") and "supervisor" not in line]
    assert told == ["sentry None SystemExit", f"sentry {framework_logger.name} RecordedError"]


def test_a_schedules_slots_are_told_to_receivers(start, effects):
    Schedule.objects.create(name="often", task=tasks.canary, every=1)
    start(variables={"TELL_ENQUEUED": "1"})
    effects.wait_for("enqueued canary")


def test_encrypted_calls_run_in_threads_and_in_the_event_loop_and_without_the_key_they_fail_and_the_worker_goes_on(
    start, effects, configure
):
    key = Fernet.generate_key().decode()
    configure(PAYLOAD_KEYS=[key])
    functions = (tasks.amark, tasks.canary)
    for each in functions:
        Task.objects.enqueue(each, ["hidden"], queue="emails")
    lost = [Task.objects.enqueue(each, ["lost"], queue="reports") for each in functions]
    assert start("--drain", "--queues", "emails", payload_keys=[key]).exit_code() == 0
    assert [line.count("hidden") for line in effects.lines()] == [1, 1]
    assert start("--drain").exit_code() == 0
    for each in lost:
        error = Task.objects.get(pk=each.pk).last_error
        assert (error["code"], error["terminal"]) == ("UNREADABLE", True)
