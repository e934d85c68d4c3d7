"""On SQLite a lease that held when its owner began to wait for the write lock, or took it, holds until others write."""

from __future__ import annotations

import pytest

from django_tasks_retry import clock, taskqueue
from django_tasks_retry.errors import LeaseLost
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue.renewal import check_lease
from django_tasks_retry.taskqueue.workflows.steps import StepKind, StepStore
from tests import tasks

pytestmark = pytest.mark.parametrize("on", ["sqlite"], indirect=True)


def leased(max_attempts=2):
    task = Task.objects.enqueue(tasks.noop, max_attempts=max_attempts)
    [lease] = taskqueue.claim("sup/1")
    return task, lease


def test_an_attempt_outlasts_its_lease_in_its_own_transaction(database, travel):
    task, lease = leased()
    with taskqueue.one_commit(lease):
        travel(600)
        check_lease(lease)
        travel(600)
        StepStore(lease).save("step", StepKind.STEP, 1)
        travel(600)
        taskqueue.complete_within(lease, "done")
    assert Task.objects.get(pk=task.pk).outcome.result == "done"


def test_a_lease_that_expired_before_the_transaction_is_lost(database, travel):
    _, lease = leased()
    travel(61)
    for verb in (check_lease, lambda lease: taskqueue.complete_within(lease, None)):
        with pytest.raises(LeaseLost, match="EXPIRED"), taskqueue.one_commit(lease):
            verb(lease)


def test_a_renewal_is_judged_by_when_it_was_asked(database, travel):
    task, lease = leased()
    asked = clock.host_time()
    travel(600)
    assert taskqueue.renew_workers(["sup/1"], 60, actor="sup") == set()
    assert taskqueue.renew_workers(["sup/1"], 60, actor="sup", asked=asked) == {task.pk}
    assert (Task.objects.get().lock_expires_at - clock.host_time()).total_seconds() > 50
    assert taskqueue.renew([lease]) == {}


def test_a_renewal_comes_too_late_for_a_task_that_was_taken(database, travel):
    _, lease = leased()
    asked = clock.host_time()
    travel(600)
    assert taskqueue.recover()
    assert taskqueue.claim("other/1")
    assert taskqueue.renew_workers(["sup/1"], 60, actor="sup", asked=asked) == set()
    assert taskqueue.renew([lease], asked=asked) == {lease.fence: "RECLAIMED"}
