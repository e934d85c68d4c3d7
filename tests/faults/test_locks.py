"""Locks and limits of the server that get in the way of a worker: waited out, nothing lost, nothing done twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from django.db import connections

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Task, TaskTotal
from tests.worker import tasks
from tests.worker.harness import story, wait_for, wait_until_finished
from tests.worker.trouble import ALIAS, Server


@contextmanager
def locked(server: Server, sql: str, *values: object) -> Iterator[None]:
    """Somebody holds a lock in a transaction and does nothing more."""
    with psycopg.connect(**server.direct()) as somebody:
        somebody.execute(sql, values)
        yield


@pytest.mark.fault("row_locked_by_vanished_client")
def test_a_row_that_a_vanished_client_keeps_locked_holds_up_no_other(start, server, effects):
    task = Task.objects.enqueue(tasks.wait_at, ["a"])
    start(lease=4.0)
    effects.wait_for("begin a")
    with locked(server, "SELECT 1 FROM django_tasks_retry_task WHERE id = %s FOR UPDATE", task.pk):
        canary = Task.objects.enqueue(tasks.canary)
        assert wait_until_finished(canary).status == "SUCCESS"
        tasks.gate("a").touch()
        effects.wait_for("end a")
    assert wait_until_finished(task).status == "SUCCESS"
    assert story(task).count("completed") == 1


BESIDE = {
    "workers": "SELECT 1 FROM django_tasks_retry_worker FOR UPDATE",
    "queues": "SELECT 1 FROM django_tasks_retry_queue FOR UPDATE",
    "lanes": "SELECT 1 FROM django_tasks_retry_lanestate FOR UPDATE",
    "totals": "SELECT 1 FROM django_tasks_retry_tasktotal FOR UPDATE",
    "statistics": "SELECT 1 FROM django_tasks_retry_taskstat FOR UPDATE",
}


def renewed_often(task: Task) -> None:
    """Return once the lease was renewed three times."""
    seen = {task.lock_expires_at}
    wait_for(lambda: seen.add(Task.objects.get(pk=task.pk).lock_expires_at) or len(seen) > 3, "three renewals")


@pytest.mark.fault("rows_beside_locked")
@pytest.mark.parametrize("beside", BESIDE)
def test_rows_beside_that_somebody_keeps_locked_hold_up_no_task(start, server, effects, beside):
    taskqueue.pause("emails", by="tests")
    taskqueue.limit_lane("stripe", concurrency=1, by="tests")
    start(lease=4.0)
    assert wait_until_finished(Task.objects.enqueue(tasks.canary)).status == "SUCCESS"
    wait_for(TaskTotal.objects.exists, "statistics")
    task = Task.objects.enqueue(tasks.wait_at, ["a"])
    effects.wait_for("begin a")
    with locked(server, BESIDE[beside]):
        renewed_often(Task.objects.get(pk=task.pk))
        assert wait_until_finished(Task.objects.enqueue(tasks.canary)).status == "SUCCESS"
    tasks.gate("a").touch()
    wait_until_finished(task)
    assert story(task) == ["running", "completed"]


@pytest.mark.fault("rows_beside_locked")
def test_a_lock_that_keeps_all_events_out_costs_no_lease(start, server, effects):
    task = Task.objects.enqueue(tasks.wait_at, ["a"])
    start(lease=4.0)
    effects.wait_for("begin a")
    with locked(server, "LOCK TABLE django_tasks_retry_taskevent IN SHARE ROW EXCLUSIVE MODE"):
        renewed_often(Task.objects.get(pk=task.pk))
        tasks.gate("a").touch()
        effects.wait_for("end a")
    wait_until_finished(task)
    assert story(task) == ["running", "completed"]
    assert wait_until_finished(Task.objects.enqueue(tasks.canary)).status == "SUCCESS"


@pytest.mark.fault("statement_timeout")
def test_a_statement_that_takes_too_long_is_tried_again(start, server, effects):
    task = Task.objects.enqueue(tasks.wait_at, ["a"])
    options = {"sslmode": "disable", "gssencmode": "disable", "options": "-c statement_timeout=200ms"}
    worker = start(variables=with_options(server, options))
    effects.wait_for("begin a")
    with locked(server, "LOCK TABLE django_tasks_retry_task IN ACCESS EXCLUSIVE MODE"):
        tasks.gate("a").touch()
        worker.wait_for_line("statement timeout")
    assert wait_until_finished(task).status == "SUCCESS"
    assert story(task) == ["running", "completed"]
    assert wait_until_finished(Task.objects.enqueue(tasks.canary)).status == "SUCCESS"


def with_options(server: Server, options: dict[str, str]) -> dict[str, str]:
    return {"WORKER_PLACE": json.dumps(server.place() | {"OPTIONS": options})}


CHANGES = [
    "ALTER TABLE django_tasks_retry_task ADD COLUMN next_version integer",
    "CREATE INDEX CONCURRENTLY next_version ON django_tasks_retry_task (next_version)",
    "ALTER TABLE django_tasks_retry_task ADD CONSTRAINT next_version CHECK (next_version > 0) NOT VALID",
    "ALTER TABLE django_tasks_retry_task VALIDATE CONSTRAINT next_version",
    "VACUUM FULL django_tasks_retry_taskevent",
    "ALTER TABLE django_tasks_retry_task DROP COLUMN next_version",
]


@pytest.mark.fault("tables_changed_under_load")
def test_tables_are_changed_under_load_and_no_attempt_is_lost(start, server, effects):
    worker = start("--processes", "2")
    worker.wait_until_up()
    enqueued = []
    for sql in CHANGES:
        enqueued += Task.objects.enqueue_many([tasks.canary, tasks.await_once] * 20)
        begun = Task.objects.finished().count()
        wait_for(lambda begun=begun: Task.objects.finished().count() > begun, "tasks being done")
        with connections[ALIAS].cursor() as cursor:
            cursor.execute(sql)
    for task in enqueued:
        assert (wait_until_finished(task).status, story(task)) == ("SUCCESS", ["running", "completed"])
    assert "Traceback" not in worker.output
