"""Ticket 4 v3, the fix of the retry semantics: its three blockers."""

from __future__ import annotations

from django_tasks_retry import taskqueue
from tests import tasks
from tests.steps import claim_one, delay_of, enqueue, now_of

RETRY_DELAYS = [300, 900, 3600]


def test_blocker_1_all_delays_are_reachable(database, travel):
    """BLOCKER 1: Retry/Backoff Semantics Now Correct: 5, 15, 60 minutes, then FAILED.

    If no budget is given, a schedule of three delays makes one of four attempts.
    """
    task = enqueue(backoff=RETRY_DELAYS)
    assert task.max_attempts == 4
    delays = []
    while now_of(task).status == "PENDING":
        taskqueue.fail_task(claim_one(), ValueError("boom"))
        delays.append(delay_of(now_of(task)))
        travel(3601)
    assert delays[:3] == RETRY_DELAYS
    assert len(delays) == 4


def test_blocker_2_atomic_claim_returns_authoritative_attempts(database, travel):
    """BLOCKER 2: Atomic Claim Returns Authoritative Attempts."""
    task = enqueue(backoff=RETRY_DELAYS)
    for _ in RETRY_DELAYS:
        lease = claim_one()
        assert lease.attempts == now_of(task).attempts
        taskqueue.fail_task(lease, ValueError("boom"))
        travel(3601)


def test_blocker_3_deterministic_retry_validation(database, travel):
    """BLOCKER 3: Deterministic Retry Validation Test: the table of its assertions, without sleeping."""
    task = enqueue(tasks.scheduled, 7)
    table = []
    for _ in range(4):
        lease = claim_one()
        taskqueue.fail_task(lease, ConnectionError("ERR_VALIDATION: position does not exist"))
        task = now_of(task)
        delay = delay_of(task) if task.status == "PENDING" else None
        table.append((lease.attempts, task.status, task.attempts, delay))
        if delay:
            travel(delay - 5)
            assert taskqueue.claim("worker") == []
            travel(6)
    assert table == [
        (1, "PENDING", 1, 300),
        (2, "PENDING", 2, 900),
        (3, "PENDING", 3, 3600),
        (4, "FAILED", 4, None),
    ]
    assert task.last_error["message"].startswith("ERR_VALIDATION")
