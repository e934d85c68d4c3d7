"""A task that has killed its process twice runs alone; if it kills that too, it fails, and its event tells how."""

from __future__ import annotations

import os
import signal

import pytest

from django_tasks_retry.models import Task

from . import tasks
from .harness import event_of, story, wait_for, wait_until_finished


@pytest.mark.fault("F294")
def test_a_task_that_kills_its_process_and_then_one_of_its_own_fails_with_what_is_known(start, effects):
    poison = Task.objects.enqueue(tasks.poison, max_attempts=10)
    canary = Task.objects.enqueue(tasks.canary, max_attempts=10)
    assert start("--drain").exit_code() == 0
    poison, canary = Task.objects.get(pk=poison.pk), Task.objects.get(pk=canary.pk)
    assert (poison.status, poison.attempts, poison.last_error["code"]) == ("FAILED", 3, "CRASHED")
    assert story(poison) == ["running", "lease_lost"] * 2 + ["running", "failed"]
    process = event_of(poison, "failed").data["process"]
    assert (process["signal"] is None) != (process["exit_code"] is None)
    assert process["peak_memory"] > 1_000_000
    assert event_of(poison, "lease_lost").data["process"].keys() == process.keys()
    assert canary.status == "SUCCESS"


@pytest.mark.fault("F295")
def test_an_innocent_one_that_was_there_twice_finishes_alone_and_the_pool_goes_on(start, effects):
    innocent = Task.objects.enqueue(tasks.wait_at, ["a"], max_attempts=10)
    worker = start()
    for times in (1, 2):
        effects.wait_for("begin a", times=times)
        [child] = worker.children()
        os.kill(child, signal.SIGKILL)
    effects.wait_for("begin a", times=3)
    wait_for(lambda: len(worker.children()) == 2, "the child of its own, beside the others")
    assert wait_until_finished(Task.objects.enqueue(tasks.canary)).status == "SUCCESS"
    tasks.gate("a").touch()
    innocent = wait_until_finished(innocent)
    assert (innocent.status, innocent.crashes) == ("SUCCESS", 2)
    wait_for(lambda: len(worker.children()) == 1, "its child's end")
