"""Cancelling a running task interrupts its function, and whatever it still reports is rejected."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

from django_tasks_retry.models import Task

from . import tasks
from .harness import status_of, story


@pytest.mark.parametrize("arguments", [[], ["--no-listen"]], ids=["listen", "no-listen"])
def test_cancelling_interrupts_threads_and_coroutines(start, effects, arguments, record_property):
    running = [Task.objects.enqueue(tasks.notice_cancel, ["a"]), Task.objects.enqueue(tasks.anotice_cancel, ["b"])]
    worker = start(*arguments, lease=4.0)
    effects.wait_for("begin a")
    effects.wait_for("begin b")
    for task, name in zip(running, "ab", strict=True):
        asked = time.monotonic()
        task.cancel(by="tests", reason="why not")
        record_property("cancelled after", f"{effects.wait_for(f'cancelled {name}') - asked:.2f} s")
    for task in running:
        worker.wait_for_line(rf"cancelled .*{str(task.pk)[:18]}.* CANCELLED")
        assert (status_of(task), story(task)) == ("CANCELLED", ["running", "cancelled"])


def test_a_deadline_interrupts_a_running_task(start, effects):
    task = Task.objects.enqueue(tasks.notice_cancel, ["a"], deadline=timedelta(seconds=20))
    worker = start()
    effects.wait_for("begin a")
    effects.wait_for("cancelled a", seconds=60)
    worker.wait_for_line("passed their deadline")
    assert (status_of(task), story(task)) == ("CANCELLED", ["running", "cancelled"])
