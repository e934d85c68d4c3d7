"""Soft timeouts reach the function; hard ones reach its process, and spare the neighbours."""

from __future__ import annotations

import pytest

from django_tasks_retry.models import Task
from tests.faults.marker import showing

from . import tasks
from .harness import event_of, story, wait_for, wait_until_finished

SOFT = [tasks.loop_for_ever, tasks.await_for_ever, tasks.await_in_a_group]
CAUGHT = [tasks.tidy_up_after_timeout, tasks.atidy_up_after_timeout]
HARD = [
    showing(tasks.hold_the_interpreter, "interpreter_held", case="hold_the_interpreter"),
    showing(tasks.hold_the_database, "interpreter_held", case="hold_the_database"),
    showing(tasks.hang_in_c, "endless_task", case="hang_in_c"),
    showing(tasks.block_the_loop, "event_loop_blocked", case="block_the_loop"),
    showing(tasks.swallow_interruptions, "event_loop_blocked", case="swallow_interruptions"),
]


@pytest.mark.fault("endless_task")
def test_a_soft_timeout_is_raised_inside_the_function(start, effects):
    soft, caught = [Task.objects.enqueue(f) for f in SOFT], [Task.objects.enqueue(f) for f in CAUGHT]
    worker = start("--drain", timeout_grace=20.0)
    assert worker.exit_code() == 0
    for task in soft:
        task = wait_until_finished(task)
        assert (task.func_path, task.status, task.outcome.error["code"]) == (task.func_path, "FAILED", "TIMEOUT")
        assert "longer than its timeout of 0.3 s" in task.outcome.error["message"]
        assert event_of(task, "failed").actor == event_of(task, "running").actor
    for task in caught:
        assert wait_until_finished(task).outcome.result == "tidied up"
    assert " child " not in worker.output


@pytest.mark.parametrize("function", HARD)
def test_a_function_that_does_not_yield_costs_its_process_not_its_neighbours(start, effects, function):
    neighbours = [Task.objects.enqueue(tasks.wait_at, ["a"]), Task.objects.enqueue(tasks.await_at, ["b"])]
    worker = start(timeout_grace=0.3)
    effects.wait_for("begin a")
    effects.wait_for("begin b")
    [child] = worker.children()
    stuck = Task.objects.enqueue(function, max_attempts=1)
    stuck = wait_until_finished(stuck)
    assert (stuck.status, stuck.outcome.error["code"]) == ("FAILED", "TIMEOUT")
    assert event_of(stuck, "failed").actor == worker.row.pk
    canary = Task.objects.enqueue(tasks.say_pid)
    assert wait_until_finished(canary).outcome.result != child
    tasks.gate("a").touch()
    tasks.gate("b").touch()
    for task in neighbours:
        task = wait_until_finished(task)
        assert (task.status, task.attempts - task.refunds) == ("SUCCESS", 1)
    wait_for(lambda: child not in worker.children(), "the end of the child with the stuck function")


@pytest.mark.fault("event_loop_blocked")
def test_a_coroutine_that_stops_the_event_loop_stops_it_for_nobody(start, effects):
    neighbour = Task.objects.enqueue(tasks.await_at, ["b"])
    worker = start("--async-slots", "3")
    effects.wait_for("begin b")
    [child] = worker.children()
    stopped = [wait_until_finished(Task.objects.enqueue(tasks.stop_the_loop)) for _ in range(2)]
    tasks.gate("b").touch()
    for task in (*stopped, wait_until_finished(neighbour)):
        assert (task.status, story(task)) == ("SUCCESS", ["running", "completed"])
    assert worker.children() == [child]


def test_leases_are_renewed_while_tasks_outlast_them_even_without_the_interpreter(start, effects):
    patient = [Task.objects.enqueue(tasks.wait_at, ["a"]), Task.objects.enqueue(tasks.await_at, ["b"])]
    start(lease=3.0)
    effects.wait_for("begin a")
    effects.wait_for("begin b")
    hog = wait_until_finished(Task.objects.enqueue(tasks.hold_on, [4.0]))
    tasks.gate("a").touch()
    tasks.gate("b").touch()
    for task in (hog, *patient):
        assert story(wait_until_finished(task)) == ["running", "completed"]


def test_a_timeout_is_retried_like_any_failure(start, effects):
    task = Task.objects.enqueue(tasks.hang_in_c)
    start(timeout_grace=0.2)
    task = wait_until_finished(task)
    assert (task.status, task.attempts - task.refunds, effects.count("hang")) == ("FAILED", 3, 3)
    assert story(task).count("failed") == 3
    assert {event.data["error"]["code"] for event in task.events.filter(kind="task.failed")} == {"TIMEOUT"}
