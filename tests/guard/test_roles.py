"""`manage.py tasksql roles`: each role can do its part, on a real PostgreSQL, and nothing beyond it."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import ProgrammingError, connections, transaction

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue.consumer.progress import report_progress
from tests import tasks
from tests.cli.conftest import tasks_command
from tests.router import CurrentDatabase
from tests.steps import enqueue, now_of

PG = "postgresql"


def roles_sql(**options: str) -> str:
    out = StringIO()
    call_command("tasksql", "roles", stdout=out, **options)
    return out.getvalue()


def execute(sql: str) -> None:
    with connections[PG].cursor() as cursor:
        cursor.execute(sql)


@pytest.fixture
def become(monkeypatch, db):
    """Create the roles, and be one of them for the rest of the test."""
    monkeypatch.setattr(CurrentDatabase, "current", PG)
    execute(roles_sql(prefix="test"))
    return lambda role: execute(f"SET LOCAL ROLE test_{role}")


pytestmark = pytest.mark.django_db(databases=["default", PG])


def refused(sql: str) -> None:
    with pytest.raises(ProgrammingError, match=r"permission denied|must be owner"), transaction.atomic(using=PG):
        execute(sql)


def test_a_worker_can_do_everything_that_workers_do(become):
    rows = [enqueue(tasks.add, 1, 2) for _ in range(5)]
    enqueue(tasks.noop, interval=60)
    become("worker")
    taskqueue.register_worker("w", "default", host="h", pid=1, version="1", processes=1, slots=1)
    taskqueue.heartbeat("w", "default", 3)
    done, failed, released, lost, kept, repeating = taskqueue.claim("w/1", limit=6)
    assert taskqueue.renew([kept]) == {}
    assert kept.id in taskqueue.renew_workers(["w/1"], 60, actor="w")
    report_progress(kept, 1, 2)
    taskqueue.complete_task(done, 3)
    taskqueue.complete_task(repeating)
    taskqueue.fail_task(failed, ValueError("no"))
    taskqueue.release_task(released, "shutdown")
    assert {receipt.lease.id for receipt in taskqueue.recover(actor="w", dead="w/1")} == {lost.id, kept.id}
    taskqueue.add_stats([taskqueue.Stat("default", "tests.tasks.add", completed=1)])
    taskqueue.forget_stats()
    assert sum(taskqueue.prune(keep=dict.fromkeys(("SUCCESS", "FAILED", "CANCELLED"), 1e-09))) == 2
    taskqueue.deregister_worker("w", "default")
    assert {now_of(row).status for row in rows[1:]} == {"PENDING"}


def test_a_producer_can_enqueue_and_read_results(become):
    become("producer")
    row = Task.objects.enqueue(tasks.noop, unique_key="once")
    assert Task.objects.enqueue(tasks.noop, unique_key="once").already_enqueued
    assert tasks.noop.get_result(str(row.pk)).status == "READY"
    Task.objects.enqueue_many([(tasks.add, [1, 2])] * 3)


def test_an_operator_can_retry_cancel_reschedule_pause_and_ask_to_stop(become):
    waiting, running, again = enqueue(), enqueue(), enqueue()
    taskqueue.register_worker("w", "default", host="h", pid=1, version="1", processes=1, slots=1)
    taskqueue.claim("w/1")
    become("operator")
    taskqueue.reschedule([again.pk], queue="bulk", priority=3, by="ops")
    assert taskqueue.cancel([waiting.pk, running.pk], by="ops").skipped == 0
    taskqueue.retry([waiting.pk], by="ops")
    taskqueue.pause("emails", by="ops")
    assert taskqueue.resume("emails", by="ops")
    assert taskqueue.ask_to_stop("w", by="ops")


@pytest.mark.parametrize("role", ["producer", "worker", "operator"])
def test_no_role_can_touch_the_guard_or_the_call(become, role):
    become(role)
    refused("UPDATE django_tasks_retry_task SET func_path = 'os.system'")
    refused("UPDATE django_tasks_retry_task SET args = '[]'")
    refused("UPDATE django_tasks_retry_taskevent SET actor = 'somebody else'")
    refused("UPDATE django_tasks_retry_taskresult SET result = NULL")
    refused("TRUNCATE django_tasks_retry_task")
    refused("ALTER TABLE django_tasks_retry_task DISABLE TRIGGER ALL")
    refused("DROP FUNCTION dtr_guard_move() CASCADE")
    refused("SET session_replication_role = replica")


def test_a_producer_cannot_move_and_a_worker_cannot_decide(become):
    become("producer")
    refused("UPDATE django_tasks_retry_task SET status = 'RUNNING'")
    refused("DELETE FROM django_tasks_retry_task")
    execute("RESET ROLE")
    become("worker")
    refused("UPDATE django_tasks_retry_task SET priority = 100")
    refused("INSERT INTO django_tasks_retry_queue (name) VALUES ('emails')")
    execute("RESET ROLE")
    become("operator")
    refused("DELETE FROM django_tasks_retry_taskevent")


def test_names_cannot_smuggle_sql():
    with pytest.raises(CommandError, match="not a plain name"):
        roles_sql(prefix="tasks; DROP TABLE x")


def test_an_operator_can_use_the_whole_command_line(become):
    first, second = enqueue(tasks.noop), enqueue(tasks.noop)
    become("operator")
    for words in (
        ["list"], ["show", first.pk], ["queues"], ["failures"], ["stats"], ["export"], ["top", "--once"],
        ["verify"], ["cancel", first.pk], ["retry", first.pk], ["run-now", second.pk], ["resume", "emails"],
        ["pause", "emails", "--reason", "x"], ["resume", "emails"], ["events"], ["prune", "--dry-run"],
    ):  # fmt: skip
        answer = tasks_command(*words)
        assert answer.code in {0, 5}, (words, answer)
