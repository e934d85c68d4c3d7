"""Without USE_TZ: the same life in the local time of the project."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from django_tasks_retry import taskqueue
from django_tasks_retry.errors import InvalidCall
from django_tasks_retry.models import Task
from tests.steps import begin, claim_one, delay_of, enqueue, now_of


@pytest.fixture(params=["UTC", "America/New_York", "Asia/Kolkata"])
def naive(request, settings, database):
    settings.TIME_ZONE = request.param
    settings.USE_TZ = False


def test_a_task_fails_waits_and_repeats(naive, travel):
    task, lease = begin(backoff=[300], interval=3600)
    assert task.eta.tzinfo is None
    taskqueue.fail_task(lease, ValueError("boom"))
    assert delay_of(now_of(task)) == 300
    travel(299)
    assert taskqueue.claim("worker") == []
    travel(2)
    taskqueue.complete_task(claim_one())
    assert Task.objects.pending().get().eta == task.eta + timedelta(hours=1)


def test_a_lease_expires(naive, travel):
    task, lease = begin()
    travel(59)
    assert taskqueue.renew([lease]) == {}
    travel(61)
    assert taskqueue.renew([lease]) == {lease.fence: "EXPIRED"}
    taskqueue.recover()
    assert now_of(task).status == "PENDING"


def test_an_aware_eta_is_refused(naive):
    with pytest.raises(InvalidCall, match="give a naive datetime"):
        enqueue(eta=datetime.now(UTC))


def test_a_naive_eta_is_local_time(naive):
    soon = datetime.now() + timedelta(days=2)
    assert now_of(enqueue(eta=soon)).eta == soon
