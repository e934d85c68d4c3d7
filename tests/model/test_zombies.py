"""Workers that come back from a pause and speak about what is no longer theirs."""

from __future__ import annotations

import pytest

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import Completed, Failed, Released
from tests import tasks

MINUTE = 60.0


@pytest.fixture
def zombie(database, travel):
    """The lease of a worker that slept past it."""
    Task.objects.enqueue(tasks.noop, max_attempts=3, backoff=[0])
    [lease] = taskqueue.claim("worker", lease=MINUTE)
    travel(2 * MINUTE)
    return lease


def row_of(lease):
    return Task.objects.filter(pk=lease.id).values().get()


def refused(lease, reason):
    """Reports of the worker change nothing, and it learns why."""
    before = row_of(lease)
    for outcome in (Completed(lease), Failed(lease, ValueError("boom")), Released(lease, "shutdown")):
        [receipt] = taskqueue.finish([outcome])
        assert (receipt.status, receipt.lost) == (None, reason)
    assert taskqueue.renew([lease]) == {lease.fence: reason}
    return row_of(lease) == before


@pytest.mark.fault("frozen_past_the_lease")
def test_a_worker_that_slept_past_its_lease_cannot_report(zombie):
    assert refused(zombie, "EXPIRED")


def test_a_worker_cannot_report_about_the_attempt_of_another(zombie):
    taskqueue.recover()
    [lease] = taskqueue.claim("another")
    assert refused(zombie, "RECLAIMED")
    assert taskqueue.complete_task(lease).accepted


@pytest.mark.fault("worker_id_used_again")
def test_a_worker_cannot_report_about_its_own_next_attempt_with_an_old_lease(zombie):
    taskqueue.recover()
    [lease] = taskqueue.claim("worker")
    assert refused(zombie, "RECLAIMED")
    assert taskqueue.complete_task(lease).accepted


def test_a_live_lease_is_not_taken_away(database):
    Task.objects.enqueue(tasks.noop)
    [lease] = taskqueue.claim("worker")
    assert taskqueue.recover() == []
    assert taskqueue.complete_task(lease).accepted


def test_attempts_are_counted_through_failures_releases_and_losses(database, travel):
    task = Task.objects.enqueue(tasks.noop, max_attempts=3, backoff=[0])
    for end in ("fail", "release", "lose"):
        [lease] = taskqueue.claim("worker")
        match end:
            case "fail":
                taskqueue.fail_task(lease, ValueError("boom"))
            case "release":
                taskqueue.release_task(lease, "shutdown")
            case "lose":
                travel(2 * MINUTE)
                taskqueue.recover()
    task.refresh_from_db()
    assert (task.status, task.attempts, task.refunds, task.max_attempts - task.spent) == ("PENDING", 3, 1, 1)
