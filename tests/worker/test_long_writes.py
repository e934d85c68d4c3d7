"""While one transaction keeps everybody else from writing tasks, running tasks keep their leases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import connections, transaction

from django_tasks_retry import clock
from django_tasks_retry.models import Task

from . import tasks
from .harness import story, wait_for, wait_until_finished
from .tasks.databases import lock_tasks

LEASE = 4.0


@contextmanager
def nobody_else_writes(using: str) -> Iterator[None]:
    with transaction.atomic(using=using):
        lock_tasks(connections[using])
        yield


def outlast_lease(using: str, leases: float = 2.0) -> None:
    """Until that many leases are over since now."""
    end = clock.now(using) + timedelta(seconds=leases * LEASE)
    wait_for(lambda: clock.now(using) > end, "the end of the lease")


def assert_done_at_once(task: Task, worker, result: str) -> None:
    task = wait_until_finished(task)
    assert (task.status, story(task)) == ("SUCCESS", ["running", "completed"])
    assert task.outcome.result == result
    assert "released" not in worker.output.replace("0 released", "")


def test_an_atomic_task_may_take_longer_than_its_lease(start, effects, committed):
    task = Task.objects.enqueue(tasks.write_atomically, ["first", "gate"], max_attempts=1)
    worker = start(lease=LEASE)
    effects.wait_for("wrote first")
    outlast_lease(committed)
    tasks.gate("gate").touch()
    assert_done_at_once(task, worker, "first")
    assert effects.count("wrote first") == 1


def test_a_task_may_write_for_longer_than_its_lease(start, effects, committed):
    task = Task.objects.enqueue(tasks.write_at_length, ["first"])
    worker = start(lease=LEASE)
    effects.wait_for("wrote first")
    outlast_lease(committed)
    tasks.gate("first").touch()
    assert_done_at_once(task, worker, "first")


@pytest.mark.parametrize("ends", ["meanwhile", "afterwards"])
def test_running_tasks_outlive_a_long_write_of_others(start, effects, committed, ends):
    """Also where other workers could take them afterwards."""
    task = Task.objects.enqueue(tasks.wait_at, ["long"], max_attempts=1)
    worker = start(lease=LEASE)
    effects.wait_for("begin long")
    other = start(lease=LEASE)
    other.wait_until_up()
    with nobody_else_writes(committed):
        outlast_lease(committed)
        if ends == "meanwhile":
            tasks.gate("long").touch()
            effects.wait_for("end long")
            outlast_lease(committed)
    if ends == "afterwards":
        outlast_lease(committed)
        tasks.gate("long").touch()
    assert_done_at_once(task, worker, "long")
    assert effects.count("begin long") == 1
