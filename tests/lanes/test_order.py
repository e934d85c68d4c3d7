"""In a lane of strict order, a task begins when the one before it has ended for good."""

from __future__ import annotations

from datetime import timedelta

import pytest

from django_tasks_retry import clock, taskqueue
from django_tasks_retry.models import Task
from django_tasks_retry.rules.failure import capture
from django_tasks_retry.taskqueue import Completed
from tests import tasks

pytestmark = pytest.mark.usefixtures("database")


def entries(count: int, account: int = 1) -> list[Task]:
    return [Task.objects.enqueue(tasks.post, args=[account, n]) for n in range(count)]


def test_tasks_run_one_after_the_other_in_the_order_they_were_enqueued(claim):
    rows, ran = entries(4), []
    while leases := claim():
        [lease] = leases
        ran.append(lease.id)
        taskqueue.finish([Completed(lease)])
    assert ran == [row.pk for row in rows]


def test_the_head_blocks_while_it_waits_for_its_retry(claim, database):
    first, second = entries(2)
    [lease] = claim()
    taskqueue.fail_task(lease, capture(ValueError("not yet")))
    assert claim() == []
    clock.shift(timedelta(minutes=5), database)
    [again] = claim()
    assert again.id == first.pk
    taskqueue.finish([Completed(again)])
    assert [lease.id for lease in claim()] == [second.pk]


def test_a_head_that_was_cancelled_or_failed_makes_way(claim):
    first, second = entries(2)
    first.cancel()
    [lease] = claim()
    assert lease.id == second.pk


def test_another_account_does_not_wait(claim):
    entries(2, account=1)
    entries(2, account=2)
    assert sorted(lease.lane for lease in claim()) == ["account-1", "account-2"]


def test_a_task_that_was_begun_in_a_lower_priority_goes_before_one_that_was_not(claim, database):
    first = Task.objects.enqueue(tasks.post, args=[1, 1])
    [lease] = claim()
    Task.objects.enqueue(tasks.post, args=[1, 2], priority=50)
    taskqueue.fail_task(lease, capture(ValueError("not yet")))
    clock.shift(timedelta(minutes=5), database)
    assert [lease.id for lease in claim()] == [first.pk]
