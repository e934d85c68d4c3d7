"""The specification task-queue-core, scenario by scenario. Its `max_retries` is the budget `max_attempts`."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.utils import timezone

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Task, TaskResult
from django_tasks_retry.rules.status import Status
from tests import tasks
from tests.steps import begin, claim_one, delay_of, enqueue, kinds, now_of


def test_create_pending_task_from_callable(database):
    """Scenario: Create pending task from callable."""
    one, other = enqueue(tasks.add, 1, kwargs={"b": 2}), enqueue()
    one = now_of(one)
    assert isinstance(one.pk, UUID)
    assert one.pk != other.pk
    assert (one.func_path, one.args, one.kwargs) == ("tests.tasks.add", [1], {"b": 2})
    assert one.eta == one.created_at == one.updated_at
    assert (one.max_attempts, one.timeout, one.status) == (5, 3600, "PENDING")


def test_schedule_task_for_future_execution(database, travel):
    """Scenario: Schedule task for future execution."""
    eta = timezone.now() + timedelta(hours=1)
    task = enqueue(eta=eta)
    assert now_of(task).eta == eta
    travel(3500)
    assert not Task.objects.due().exists()
    assert taskqueue.claim("worker") == []
    assert now_of(task).status == "PENDING"
    travel(101)
    assert claim_one().id == task.pk


def test_configure_repeating_task_with_interval(database):
    """Scenario: Configure repeating task with interval."""
    task, lease = begin(interval=600)
    assert task.interval == 600
    taskqueue.complete_task(lease)
    following = Task.objects.pending().get()
    assert (following.interval, following.func_path) == (600, task.func_path)
    assert (following.eta - task.eta).total_seconds() == 600


def test_status_transition_on_successful_completion(database):
    """Scenario: Status transition on successful completion."""
    task, lease = begin()
    taskqueue.complete_task(lease, {"fine": True})
    task = now_of(task)
    assert (task.status, task.outcome.status) == ("SUCCESS", "SUCCESS")
    assert task.updated_at == task.outcome.finished_at > task.created_at


def test_status_transition_on_failure_with_retry(database):
    """Scenario: Status transition on failure with retry.

    RETRYING does not exist in the contract: such a task is PENDING with attempts spent, and `retrying()` finds it.
    The attempt was counted by the claim, not by the failure.
    """
    task, lease = begin()
    taskqueue.fail_task(lease, ValueError("boom"))
    task = now_of(task)
    assert (task.status, task.attempts) == ("PENDING", 1)
    assert Task.objects.retrying().get() == task
    assert task.last_error["message"] == "boom"
    assert delay_of(task) > 0


def test_status_transition_on_final_failure(database, travel):
    """Scenario: Status transition on final failure."""
    task = enqueue(max_attempts=2)
    for _ in range(2):
        taskqueue.fail_task(claim_one(), ValueError("boom"))
        travel(100)
    task = now_of(task)
    assert (task.status, task.outcome.error["message"]) == ("FAILED", "boom")
    assert taskqueue.claim("worker") == []


def test_cancelled_task(database):
    """Scenario: Cancelled task, waiting for its first attempt or for a further one."""
    fresh = enqueue()
    retrying, lease = begin_other(fresh)
    taskqueue.fail_task(lease, ValueError("boom"))
    for task in (fresh, retrying):
        task.cancel(by="tests", reason="not needed")
        task = now_of(task)
        assert (task.status, task.outcome.status) == ("CANCELLED", "CANCELLED")
        assert task.finished_at == task.updated_at == task.outcome.finished_at
        assert task.outcome.error["message"] == "not needed"
    assert taskqueue.claim("worker", limit=10) == []


def begin_other(but: Task):
    task = enqueue(priority=1)
    lease = claim_one()
    assert lease.id == task.pk != but.pk
    return task, lease


def test_store_success_result(database):
    """Scenario: Store success result."""
    task, lease = begin()
    taskqueue.complete_task(lease, {"total": 3})
    result = TaskResult.objects.get()
    assert (result.task_id, result.status, result.result, result.error) == (task.pk, "SUCCESS", {"total": 3}, None)
    assert result.finished_at == now_of(task).finished_at
    assert (result.attempts, result.last_attempt_at) == (1, lease.last_attempt_at)


def test_store_failure_result(database):
    """Scenario: Store failure result."""
    task, lease = begin(max_attempts=1)
    taskqueue.fail_task(lease, ValueError("boom"))
    result = TaskResult.objects.get()
    assert (result.task_id, result.status, result.result) == (task.pk, Status.FAILED, None)
    assert (result.error["message"], result.error["code"]) == ("boom", "EXCEPTION")
    assert "ValueError: boom" in result.error["traceback"]
    assert result.finished_at == now_of(task).finished_at
    assert (result.attempts, result.last_attempt_at) == (1, lease.last_attempt_at)
    assert kinds(task) == ["task.running", "task.failed"]
