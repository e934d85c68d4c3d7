"""Without USE_TZ: the same life. The queue's own times are instants; those of the project are local."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from django_tasks_retry import taskqueue
from django_tasks_retry.errors import InvalidCall
from django_tasks_retry.models import Task
from tests import tasks
from tests.steps import begin, claim_one, delay_of, enqueue, now_of


@pytest.fixture(params=["UTC", "America/New_York", "Asia/Kolkata"])
def naive(request, settings, database):
    settings.TIME_ZONE = request.param
    settings.USE_TZ = False
    return ZoneInfo(request.param)


def test_a_task_fails_waits_and_repeats(naive, travel):
    task, lease = begin(backoff=[300], interval=3600)
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


def test_every_time_of_a_task_and_of_its_lease_is_an_instant(naive):
    task, lease = begin()
    assert {task.eta.tzinfo, task.created_at.tzinfo, lease.eta.tzinfo, lease.lock_expires_at.tzinfo} == {UTC}


def test_a_naive_eta_is_local_time(naive):
    soon = datetime.now() + timedelta(days=2)
    assert now_of(enqueue(eta=soon)).eta == soon.replace(tzinfo=naive)


def test_an_aware_eta_is_taken_as_it_is(naive):
    soon = datetime.now(UTC) + timedelta(days=2)
    assert now_of(enqueue(eta=soon)).eta == soon


def test_a_text_is_not_an_eta(naive):
    with pytest.raises(InvalidCall, match="give a datetime"):
        enqueue(eta="tomorrow")


def test_results_tell_the_project_local_times(naive):
    soon = datetime.now().replace(microsecond=0) + timedelta(days=2)
    result = tasks.noop.using(run_after=soon).enqueue()
    again = tasks.noop.get_result(result.id)
    assert again.task.run_after == soon
    assert again.enqueued_at == now_of(Task(pk=result.id)).created_at.astimezone(naive).replace(tzinfo=None)
