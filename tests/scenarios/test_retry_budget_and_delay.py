"""The document on the simplified state machine and the ownership of the retry policy, scenario by scenario."""

from __future__ import annotations

import ast
from pathlib import Path

from django_tasks_retry import taskqueue, worker
from django_tasks_retry.models import Task
from django_tasks_retry.rules.status import Status
from tests import tasks
from tests.steps import begin, claim_one, delay_of, enqueue, kinds, now_of


def test_task_statuses_are_only_these_five():
    """Requirement: Task Status Lifecycle, using only PENDING, RUNNING, SUCCESS, FAILED, CANCELLED."""
    assert {status.value for status in Status} == {"PENDING", "RUNNING", "SUCCESS", "FAILED", "CANCELLED"}


def test_status_transition_on_failure_with_retry(database):
    """Scenario: Status transition on failure with retry (simplified state machine).

    The contract reads "to FAILED and back to PENDING" as one move: the failure is an event, the row never rests there.
    """
    task, lease = begin(max_attempts=3)
    taskqueue.fail_task(lease, ValueError("boom"))
    task = now_of(task)
    assert task.status == "PENDING"
    assert task.last_error["message"] == "boom"
    assert kinds(task) == ["task.running", "task.failed", "task.requeued"]
    assert delay_of(task) > 0
    assert not Task.objects.due().exists()
    assert taskqueue.claim("worker") == []


def test_status_transition_on_final_failure(database, travel):
    """Scenario: Status transition on final failure."""
    task, lease = begin(max_attempts=1)
    taskqueue.fail_task(lease, ValueError("boom"))
    task = now_of(task)
    assert task.status == "FAILED"
    assert task.outcome.status == "FAILED"
    travel(100_000)
    assert taskqueue.claim("worker") == []
    assert Task.objects.count() == 1


def test_attempts_count_total_executions(database, travel):
    """Scenario: Attempts count total executions."""
    task = enqueue(max_attempts=4)
    assert task.attempts == 0
    counted = []
    for _ in range(4):
        lease = claim_one()
        counted.append((lease.attempts, now_of(task).attempts))
        taskqueue.fail_task(lease, ValueError("boom"))
        counted.append((lease.attempts, now_of(task).attempts))
        travel(100)
    assert counted == [(1, 1), (1, 1), (2, 2), (2, 2), (3, 3), (3, 3), (4, 4), (4, 4)]


def test_retry_budget_enforcement(database, travel):
    """Scenario: Retry budget enforcement. `max_retries=3` there is `max_attempts=3` here."""
    task = enqueue(max_attempts=3)
    statuses = {}
    for _ in range(3):
        lease = claim_one()
        statuses[lease.attempts] = taskqueue.fail_task(lease, ValueError("boom")).status
        travel(100)
    assert statuses[2] == "PENDING"  # 2 < 3
    assert statuses[3] == "FAILED"  # not 3 < 3
    assert now_of(task).attempts == 3


def test_queue_computes_retry_delay(database, travel, configure):
    """Scenario: Queue computes retry delay: exponential, eta = now + delay."""
    configure(RETRY_JITTER=0, RETRY_BASE=1.5, RETRY_CAP=10)
    task = enqueue(max_attempts=6)
    delays = []
    for _ in range(5):
        receipt = taskqueue.fail_task(claim_one(), ValueError("boom"))
        task = now_of(task)
        assert receipt.eta == task.eta
        delays.append(delay_of(task))
        travel(100)
    assert delays == [1.5, 3.0, 6.0, 10.0, 10.0]


def test_worker_delegates_to_queue(database):
    """Scenario: Worker delegates to queue: what a worker reports has no room for a delay, and the eta comes back."""
    task, lease = begin(func=tasks.explode)
    report = taskqueue.Failed(lease, ValueError("boom"))
    assert set(report._fields).isdisjoint({"delay", "eta", "backoff"})
    [receipt] = taskqueue.finish([report])
    assert receipt.eta == now_of(task).eta


def test_no_module_of_the_worker_knows_how_delays_are_computed():
    """Scenario: Worker delegates to queue: MUST NOT compute retry delay independently in the worker."""
    computing = {"backoff", "verdict", "repeat"}
    for path in Path(worker.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rules"):
                named = {*(node.module or "").split("."), *(alias.name for alias in node.names)}
                assert named.isdisjoint(computing), path.name
