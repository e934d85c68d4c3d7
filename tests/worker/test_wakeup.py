"""Wake-ups make a worker prompt. If they are lost, nothing else is: polling finds the tasks."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from django.db import connections

from django_tasks_retry.models import Task

from . import tasks
from .harness import ROOT, environment, place_of, wait_for, wait_until_finished

LISTENERS = "query LIKE 'LISTEN%' AND datname = current_database()"


def on_postgresql(alias: str) -> None:
    if connections[alias].vendor != "postgresql":
        pytest.skip("SQLite workers poll")


def asked(sql: str) -> int:
    with connections["postgresql"].cursor() as cursor:
        cursor.execute(sql)
        return int(cursor.fetchone()[0])


def listeners() -> int:
    return asked(f"SELECT count(*) FROM pg_stat_activity WHERE {LISTENERS}")


@pytest.mark.no_pooler("a pooler in transaction mode delivers no notifications")
def test_a_task_enqueued_while_the_worker_waits_is_picked_up_at_once(start, effects, committed, record_property):
    on_postgresql(committed)
    worker = start("--poll", "10m")
    worker.wait_until_up()
    wait_until_finished(Task.objects.enqueue(tasks.canary))
    enqueued = time.monotonic()
    wait_until_finished(Task.objects.enqueue(tasks.canary))
    record_property("picked up after", f"{time.monotonic() - enqueued:.3f} s")
    print(f"enqueued to finished {time.monotonic() - enqueued:.3f} s")  # noqa: T201


@pytest.mark.needs("listen")
@pytest.mark.no_pooler("a pooler in transaction mode delivers no notifications")
def test_a_process_that_enqueues_and_ends_has_told_the_worker(start, effects, committed, tmp_path):
    on_postgresql(committed)
    start("--poll", "10m")
    wait_until_finished(Task.objects.enqueue(tasks.canary))
    script = "import django; django.setup(); from tests.worker import tasks; tasks.canary.enqueue()"
    surroundings = environment(committed, tmp_path, place_of(committed), {})
    for _ in range(3):
        subprocess.run([sys.executable, "-c", script], env=surroundings, cwd=ROOT, check=True)
    wait_for(lambda: Task.objects.successful().count() == 4, "the end of all tasks")


@pytest.mark.needs("listen")
@pytest.mark.fault("wake_ups_lost")
@pytest.mark.no_pooler("a pooler in transaction mode delivers no notifications")
def test_a_task_enqueued_while_the_listener_is_cut_off_is_found_when_it_listens_again(start, effects, committed):
    on_postgresql(committed)
    start("--poll", "10m")
    wait_until_finished(Task.objects.enqueue(tasks.canary))
    wait_for(listeners, "a listener")
    assert asked(f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {LISTENERS}") == 1
    wait_for(lambda: not listeners(), "the end of the listener's connection")
    missed = Task.objects.enqueue(tasks.canary)
    assert listeners() == 0
    assert wait_until_finished(missed).status == "SUCCESS"
    wait_for(listeners, "a listener")
    assert wait_until_finished(Task.objects.enqueue(tasks.canary)).status == "SUCCESS"


@pytest.mark.fault("wake_ups_lost")
def test_a_notification_that_never_arrives_costs_no_more_than_a_poll(start_behind, proxy, effects):
    worker = start_behind("--poll", "300ms")
    worker.wait_until_up()
    wait_for(lambda: any(b"pg_notify" in statement for statement in proxy.statements), "the listener's own test")
    wait_until_finished(Task.objects.enqueue(tasks.canary))
    proxy.deaf = True
    for _ in range(3):
        assert wait_until_finished(Task.objects.enqueue(tasks.canary)).status == "SUCCESS"


@pytest.mark.fault("wake_ups_lost")
def test_without_wake_ups_a_task_is_found_by_polling(start, effects):
    worker = start("--no-listen", "--poll", "200ms")
    worker.wait_until_up()
    for _ in range(3):
        wait_until_finished(Task.objects.enqueue(tasks.canary))
    assert effects.count("canary") == 3
