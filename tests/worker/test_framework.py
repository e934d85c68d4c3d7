"""The words of django.tasks: signals, context, lineage; retries of both kinds of function."""

from __future__ import annotations

from django_tasks_retry.models import Task

from . import tasks
from .harness import story, wait_until_finished

TELL = {"variables": {"TELL_SIGNALS": "1"}}


def test_signals_tell_of_each_start_and_of_the_end(start, effects):
    Task.objects.enqueue_many([tasks.fail_twice, tasks.system_exit, tasks.await_once])
    assert start("--drain", **TELL).exit_code() == 0
    told = [line for line in effects.lines() if line.startswith("signal")]
    assert sorted(told) == [
        "signal task_finished await_once SUCCESSFUL True",
        "signal task_finished fail_twice SUCCESSFUL True",
        "signal task_finished system_exit FAILED True",
        "signal task_started await_once RUNNING True",
        *["signal task_started fail_twice RUNNING True"] * 3,
        "signal task_started system_exit RUNNING True",
    ]


def test_the_context_tells_about_the_attempt(start, effects):
    task, coroutine = Task.objects.enqueue(tasks.describe), Task.objects.enqueue(tasks.afail_twice)
    assert start("--drain").exit_code() == 0
    assert wait_until_finished(task).outcome.result == [1, 1, "RUNNING", "describe"]
    coroutine = wait_until_finished(coroutine)
    assert (coroutine.status, coroutine.outcome.result) == ("SUCCESS", 2)
    assert story(coroutine) == ["running", "failed", "requeued"] * 2 + ["running", "completed"]


def test_what_a_task_enqueues_belongs_to_its_run(start, effects):
    parents = [Task.objects.enqueue(tasks.enqueue_another), Task.objects.enqueue(tasks.aenqueue_another)]
    assert start("--drain").exit_code() == 0
    for parent in parents:
        parent = wait_until_finished(parent)
        child = Task.objects.get(pk=parent.outcome.result)
        assert (child.parent_id, child.run_id, child.status) == (parent.pk, parent.run_id, "SUCCESS")
    assert effects.count("from within") == 2
