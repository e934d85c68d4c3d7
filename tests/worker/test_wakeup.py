from __future__ import annotations

import time

import pytest
from django.db import connections

from django_tasks_retry.models import Task

from . import tasks
from .harness import wait_until_finished


def test_a_task_enqueued_while_the_worker_waits_is_picked_up_at_once(start, effects, committed, record_property):
    if connections[committed].vendor != "postgresql":
        pytest.skip("SQLite workers poll")
    worker = start("--poll", "10m")
    worker.wait_until_up()
    wait_until_finished(Task.objects.enqueue(tasks.canary))
    enqueued = time.monotonic()
    wait_until_finished(Task.objects.enqueue(tasks.canary))
    record_property("picked up after", f"{time.monotonic() - enqueued:.3f} s")
    print(f"enqueued to finished {time.monotonic() - enqueued:.3f} s")  # noqa: T201


def test_without_wake_ups_a_task_is_found_by_polling(start, effects):
    worker = start("--no-listen", "--poll", "200ms")
    worker.wait_until_up()
    for _ in range(3):
        wait_until_finished(Task.objects.enqueue(tasks.canary))
    assert effects.count("canary") == 3
