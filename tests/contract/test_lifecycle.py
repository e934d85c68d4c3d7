from __future__ import annotations

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Task
from tests import tasks


def test_a_task_is_enqueued_claimed_and_completed(database):
    task = Task.objects.enqueue(tasks.add, args=[1, 2])
    assert (task.status, task.attempts) == ("PENDING", 0)
    [lease] = taskqueue.claim("worker")
    assert lease.id == task.id
    receipt = taskqueue.complete_task(lease, 3)
    assert receipt.status == "SUCCESS"
    task.refresh_from_db()
    assert task.outcome.result == 3
    assert [event.kind for event in task.events.all()] == ["task.running", "task.completed"]


def test_the_fixed_schedule(database, travel):
    task = Task.objects.enqueue(tasks.scheduled, args=[1])
    seen = []
    for delay in (300, 900, 3600, None):
        [lease] = taskqueue.claim("worker")
        receipt = taskqueue.fail_task(lease, ConnectionError("down"))
        task.refresh_from_db()
        seen.append((task.attempts, task.status))
        if delay:
            assert abs((receipt.eta - lease.last_attempt_at).total_seconds() - delay) < 5
            assert taskqueue.claim("worker") == []
            travel(delay + 5)
    assert seen == [(1, "PENDING"), (2, "PENDING"), (3, "PENDING"), (4, "FAILED")]


def test_cancel_retry_recover_release(database, travel):
    task = Task.objects.enqueue(tasks.noop, unique_key="k")
    again = Task.objects.enqueue(tasks.noop, unique_key="k")
    assert again.already_enqueued
    assert again.pk == task.pk
    [lease] = taskqueue.claim("worker")
    assert taskqueue.renew([lease]) == {}
    taskqueue.release_task(lease, "shutdown")
    [lease] = taskqueue.claim("worker")
    travel(100)
    [back] = taskqueue.recover()
    assert back.status == "PENDING"
    assert taskqueue.renew([lease]) == {lease.fence: "RECLAIMED"}
    task.cancel(by="tests", reason="why not")
    fresh = task.retry(by="tests")
    assert fresh.retry_of_id == task.pk
