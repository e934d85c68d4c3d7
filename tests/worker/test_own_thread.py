"""No code of a task runs in a thread that serves others: not its function, its exceptions, nor what it returns."""

from __future__ import annotations

import pytest

from django_tasks_retry.models import Task

from . import tasks
from .harness import story, wait_until_finished

TELL = {"variables": {"TELL_SIGNALS": "1"}}


@pytest.mark.fault("task_code_in_a_serving_thread")
@pytest.mark.parametrize("function", [tasks.return_curious, tasks.raise_talkative], ids=["result", "exception"])
def test_results_and_exceptions_are_looked_at_in_the_thread_of_their_task(start, effects, function):
    task = Task.objects.enqueue(function)
    assert start("--drain", **TELL).exit_code() == 0
    wait_until_finished(task)
    seen = {line for line in effects.lines() if " in " in line}
    assert seen
    assert {line.rpartition(" ")[2] for line in seen} == {"django_tasks_retry.executor"}


@pytest.mark.fault("task_code_in_a_serving_thread")
@pytest.mark.parametrize("how", tasks.ODD_ENDS)
def test_an_odd_end_is_that_tasks_failure_and_nobody_elses(start, effects, how):
    neighbour = Task.objects.enqueue(tasks.wait_at, ["a"], max_attempts=1)
    worker = start("--threads", "2", timeout_grace=20.0)
    effects.wait_for("begin a")
    odd = wait_until_finished(Task.objects.enqueue(tasks.end_oddly, [how]))
    assert odd.status in ("FAILED", "SUCCESS")
    assert "lease_lost" not in story(odd)
    tasks.gate("a").touch()
    assert wait_until_finished(neighbour).status == "SUCCESS"
    assert story(neighbour) == ["running", "completed"]
    assert " child " not in worker.output


@pytest.mark.fault("task_code_in_a_serving_thread")
def test_an_exception_that_is_slow_to_tell_delays_its_own_task_only(start, effects):
    slow = Task.objects.enqueue(tasks.raise_slow_to_tell)
    start("--threads", "2")
    effects.wait_for("begin slow")
    for _ in range(3):
        assert wait_until_finished(Task.objects.enqueue(tasks.canary)).status == "SUCCESS"
    assert Task.objects.get(pk=slow.pk).status == "RUNNING"
    tasks.gate("told").touch()
    assert wait_until_finished(slow).outcome.error["message"] == "told at last"
