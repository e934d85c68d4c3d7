"""The document of task state transitions, row by row and rule by rule.

Its WAITING is PENDING, LEASED is RUNNING, COMPLETED is SUCCESS and DEAD is CANCELLED.
"""

from __future__ import annotations

import pytest
from django.db.models import Q

from django_tasks_retry import taskqueue
from django_tasks_retry.errors import Abort, IllegalMove, LeaseLost
from django_tasks_retry.models import Task
from django_tasks_retry.rules.status import FINISHED, Status
from tests.steps import begin, claim_one, enqueue, everything, kinds, now_of, task_in

REPORTS = {
    "TaskCompleted": lambda lease: taskqueue.complete_task(lease, 1),
    "TaskFailed": lambda lease: taskqueue.fail_task(lease, ValueError("late")),
    "released": lambda lease: taskqueue.release_task(lease, "late"),
}


def test_3_created_becomes_waiting(database):
    """— | TaskCreated | WAITING | YES | Initial creation"""
    task = enqueue()
    assert (task.status, task.attempts, task.locked_by) == ("PENDING", 0, None)


def test_3_waiting_lease_granted_becomes_leased(database):
    """WAITING | LeaseGranted | LEASED | YES | Attempt increments"""
    task, lease = begin()
    assert (task.status, task.attempts, task.locked_by) == ("RUNNING", 1, lease.locked_by)


@pytest.mark.parametrize("event", ["TaskCompleted", "TaskFailed"])
def test_3_waiting_cannot_be_reported_on(database, event):
    """WAITING | TaskCompleted, TaskFailed | — | NO | requires a lease"""
    task, lease = task_in(Status.PENDING)
    before = everything(task)
    with pytest.raises(LeaseLost):
        REPORTS[event](lease)
    assert everything(task) == before


def test_3_waiting_has_no_lease_to_expire(database, travel):
    """WAITING | LeaseExpired | — | NO | No lease to expire"""
    task = enqueue()
    travel(1_000_000)
    assert taskqueue.recover() == []
    assert (now_of(task).status, kinds(task)) == ("PENDING", [])


def test_3_leased_extended_moves_the_expiry_only(database, travel):
    """LEASED | LeaseExtended | LEASED | YES | Expiry updated only"""
    task, lease = begin()
    travel(30)
    assert taskqueue.renew([lease]) == {}
    after = now_of(task)
    changed = {f.name for f in Task._meta.fields if getattr(task, f.attname) != getattr(after, f.attname)}
    # The signature is how the guard tells a renewal from an UPDATE that merely leaves the last one in its place.
    assert changed == {"lock_expires_at", "moved_by"}
    assert (after.lock_expires_at - task.lock_expires_at).total_seconds() == pytest.approx(30, abs=5)
    assert kinds(task) == ["task.running"]


def test_3_leased_completed(database):
    """LEASED | TaskCompleted | COMPLETED | YES | Lease must be valid"""
    task, lease = begin()
    taskqueue.complete_task(lease, 1)
    assert now_of(task).status == "SUCCESS"


@pytest.mark.parametrize(("budget", "status"), [(2, "PENDING"), (1, "FAILED")])
def test_3_leased_failed_depends_on_retry_policy(database, budget, status):
    """LEASED | TaskFailed | WAITING / FAILED | YES | Depends on retry policy"""
    task, lease = begin(max_attempts=budget)
    taskqueue.fail_task(lease, ValueError("boom"))
    assert now_of(task).status == status


def test_3_leased_expired_becomes_waiting(database, travel):
    """LEASED | LeaseExpired | WAITING | YES | Ownership revoked by time"""
    task, _ = begin()
    travel(61)
    taskqueue.recover()
    assert (now_of(task).status, now_of(task).locked_by) == ("PENDING", None)


def test_3_leased_cannot_be_leased_again(database):
    """LEASED | LeaseGranted | — | NO | Cannot double-lease"""
    begin()
    assert taskqueue.claim("another", limit=10) == []


def test_3_leased_cancelled(database):
    """LEASED | TaskCancelled: authority loss.

    The document keeps the task LEASED; the contract finishes it as CANCELLED in the same statement. To the worker
    both are the same: its authority is gone, and it learns why.
    """
    task, lease = begin()
    task.cancel(by="tests")
    assert (now_of(task).status, now_of(task).locked_by) == ("CANCELLED", None)
    assert list(taskqueue.renew([lease]).values()) == ["CANCELLED"]


@pytest.mark.parametrize("status", FINISHED)
def test_3_terminal_states_take_no_event(database, travel, status):
    """COMPLETED, FAILED, DEAD | any | — | NO | Terminal state"""
    task, lease = task_in(status)
    before = everything(task)
    for report in REPORTS.values():
        with pytest.raises(LeaseLost):
            report(lease)
    assert taskqueue.renew([lease]) != {}
    with pytest.raises(IllegalMove):
        task.cancel()
    assert taskqueue.reschedule([task.pk]).skipped == 1
    travel(1000)
    assert taskqueue.recover() == []
    assert taskqueue.claim("worker") == []
    assert everything(task) == before


def test_4_leased_to_completed_with_expired_lease_is_rejected(database, travel):
    """Forbidden: LEASED → COMPLETED with expired lease; the protocol error says why."""
    task, lease = begin()
    travel(60)
    before = everything(task)
    with pytest.raises(LeaseLost) as lost:
        taskqueue.complete_task(lease, 1)
    assert lost.value.reason == "EXPIRED"
    assert everything(task) == before


def test_4_leased_to_completed_with_mismatched_lease_is_rejected(database, travel):
    """Forbidden: LEASED → COMPLETED with mismatched lease."""
    task, stale = begin("first")
    travel(61)
    taskqueue.recover()
    current = claim_one("second")
    before = everything(task)
    with pytest.raises(LeaseLost) as lost:
        taskqueue.complete_task(stale, "of the first")
    assert lost.value.reason == "RECLAIMED"
    assert everything(task) == before
    taskqueue.complete_task(current, "of the second")
    assert now_of(task).outcome.result == "of the second"


def test_5_a_cancelled_worker_is_told_and_triggers_no_retry(database, travel):
    """Cancellation Semantics: no retry triggered, the worker receives CANCELLED."""
    task, lease = begin()
    task.cancel(by="tests")
    with pytest.raises(LeaseLost) as lost:
        taskqueue.fail_task(lease, ValueError("boom"))
    assert lost.value.reason == "CANCELLED"
    travel(1000)
    assert taskqueue.claim("worker") == []


def test_6_lease_expiry_does_not_count_as_a_failure(database, travel):
    """Retry Semantics: retries are evaluated only on TaskFailed.

    The contract adds: once no attempt is left, a lost lease is final. Else a task that kills its worker runs for ever.
    """
    task, _ = begin(max_attempts=2)
    travel(61)
    taskqueue.recover()
    task = now_of(task)
    assert (task.status, task.last_error, task.attempts) == ("PENDING", None, 1)
    assert task.eta <= task.updated_at  # no backoff
    claim_one()
    travel(61)
    taskqueue.recover()
    assert (now_of(task).status, now_of(task).last_error["code"]) == ("FAILED", "LEASE_LOST")


def test_6_retry_policy_decides(database):
    """Retry Semantics: to WAITING (retry) or to FAILED (terminal)."""
    task, lease = begin(max_attempts=5)
    taskqueue.fail_task(lease, Abort("no use"))
    assert now_of(task).status == "FAILED"


def test_7_time_only_removes_permission(database, travel):
    """Time-Based Transitions: time never completes and never fails tasks; it revokes ownership."""
    task, lease = begin()
    travel(1_000_000)
    assert now_of(task).status == "RUNNING"
    assert list(taskqueue.renew([lease]).values()) == ["EXPIRED"]


def test_8_invariants_hold_after_every_kind_of_move(database, travel):
    """Invariants: only a LEASED task has a lease, and it has exactly one."""
    for status in reversed(Status):
        task_in(status)
    leased = Q(locked_by__isnull=False, lock_expires_at__isnull=False)
    unleased = Q(locked_by__isnull=True, lock_expires_at__isnull=True)
    assert Task.objects.running().filter(leased).count() == 1
    assert Task.objects.exclude(status="RUNNING").filter(unleased).count() == 4
