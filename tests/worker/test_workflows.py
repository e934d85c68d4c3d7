"""Workflows in real workers: members in other threads, coroutines that wait, signals from another process."""

from __future__ import annotations

from django_tasks_retry import signal
from django_tasks_retry.models import Task, TaskEvent

from . import tasks
from .harness import status_of, wait_for


def test_a_workflow_of_two_levels_waits_without_a_worker_and_goes_on(start):
    task = Task.objects.enqueue(tasks.agathers, ["go"])
    worker = start()
    wait_for(lambda: Task.objects.get(pk=task.pk).waits_for == "signal:go", "the task to wait for its signal")
    signal("go", "went")
    wait_for(lambda: status_of(task) == "SUCCESS", "the end of the workflow")
    assert Task.objects.get(pk=task.pk).outcome.result == [[101.5, 101.5], "went"]
    woken = TaskEvent.objects.filter(task_id=task.pk, kind="task.rescheduled")
    assert woken.count() == 2, "once by its batch, once by its signal"
    assert "Traceback" not in worker.output
