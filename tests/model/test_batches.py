"""One call about many leases answers for each lease, also where one worker holds the same attempt of several tasks."""

from __future__ import annotations

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import Completed, Released
from tests import tasks


def claim_two():
    Task.objects.enqueue_many([(tasks.noop,), (tasks.noop,)])
    return taskqueue.claim("worker", limit=2)


def test_renewing_a_lost_lease_beside_a_held_one_names_the_lost_one(database):
    held, lost = claim_two()
    taskqueue.cancel([lost.id])
    assert taskqueue.renew([held, lost]) == {lost.fence: "CANCELLED"}


def test_each_receipt_belongs_to_its_own_outcome_in_the_order_of_the_call(database):
    first, second = claim_two()
    taskqueue.cancel([second.id])
    late, done = taskqueue.finish([Completed(second), Completed(first)])
    assert (late.lease.id, late.lost) == (second.id, "CANCELLED")
    assert (done.lease.id, done.status) == (first.id, "SUCCESS")


def test_outcomes_of_different_kinds_keep_their_own_status(database):
    first, second = claim_two()
    receipts = taskqueue.finish([Released(second, "shutdown"), Completed(first)])
    assert [(r.lease.id, r.status) for r in receipts] == [(second.id, "PENDING"), (first.id, "SUCCESS")]
