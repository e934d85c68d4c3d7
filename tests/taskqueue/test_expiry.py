"""Expiry: what was not started in time never starts, and is cancelled with the reason."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, connections, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_tasks_retry import taskqueue
from django_tasks_retry.clock import now
from django_tasks_retry.errors import InvalidCall
from django_tasks_retry.models import Task, TaskEvent, TaskResult
from django_tasks_retry.rules.status import Status
from django_tasks_retry.taskqueue import EnqueueOptions
from django_tasks_retry.taskqueue.recording import EXPIRED
from tests import tasks
from tests.steps import claim_one, enqueue, kinds, now_of

HOUR = timedelta(hours=1)


def test_an_expired_task_never_starts_even_before_anybody_has_swept_it(database, travel):
    late, lasting = enqueue(expires=HOUR), enqueue()
    travel(3601)
    assert [lease.id for lease in taskqueue.claim("worker", limit=10)] == [lasting.pk]
    assert now_of(late).status == Status.PENDING


def test_a_task_starts_until_its_last_moment(database, travel):
    task = enqueue(expires=HOUR)
    travel(3590)
    assert claim_one().id == task.pk


def test_it_is_cancelled_with_the_reason_as_by_any_cancel(database, travel):
    task = enqueue(expires=HOUR)
    travel(3601)
    assert taskqueue.expire(actor="w") == [task.pk]
    ended = now_of(task)
    assert (ended.status, ended.attempts, kinds(task)) == (Status.CANCELLED, 0, ["task.cancelled"])
    event, result = TaskEvent.objects.get(task=task), TaskResult.objects.get(task=task)
    assert (event.actor, event.data) == ("w", {"reason": EXPIRED})
    assert result.error == {"message": EXPIRED, "code": "CANCELLED", "actor": "w"}


def test_the_sweep_takes_only_what_is_past_and_no_more_than_it_may(database, travel):
    early = [enqueue(expires=timedelta(minutes=n)) for n in (1, 2, 3)]
    kept = [enqueue(), enqueue(expires=HOUR)]
    travel(600)
    assert taskqueue.expire(limit=2) == sorted(task.pk for task in early[:2])
    assert taskqueue.expire(limit=2) == [early[2].pk]
    assert taskqueue.expire() == []
    assert [now_of(task).status for task in kept] == [Status.PENDING] * 2


def test_a_task_that_failed_in_time_is_retried_however_late(database, travel):
    task = enqueue(expires=HOUR)
    taskqueue.fail_task(claim_one(), ValueError())
    travel(7200)
    assert taskqueue.expire() == []
    assert claim_one().id == task.pk


def test_a_task_that_was_given_back_before_it_began_expires(database, travel):
    task = enqueue(expires=HOUR)
    taskqueue.release_task(claim_one(), "never began")
    travel(3601)
    assert taskqueue.claim("worker") == []
    assert taskqueue.expire() == [task.pk]


def test_a_running_task_does_not_expire(database, travel):
    task = enqueue(expires=HOUR)
    claim_one(lease=7200)
    travel(3601)
    assert taskqueue.expire() == []
    assert now_of(task).status == Status.RUNNING


@pytest.mark.parametrize("beside", [0, 2], ids=["alone", "with others"])
def test_a_delay_counts_from_the_moment_the_task_is_written_and_an_instant_is_kept(database, beside):
    at = datetime(2099, 1, 2, 3, 4, 5, tzinfo=UTC)
    others = [EnqueueOptions(tasks.noop)] * beside
    [delayed, *rest] = taskqueue.enqueue_many([EnqueueOptions(tasks.noop, expires=HOUR), *others])
    [fixed, *_] = taskqueue.enqueue_many([EnqueueOptions(tasks.noop, expires=at), *others])
    assert delayed.expires_at == delayed.created_at + HOUR == now_of(delayed).expires_at
    assert fixed.expires_at == at == now_of(fixed).expires_at
    assert [now_of(task).expires_at for task in rest] == [None] * beside


def test_a_retry_by_a_person_does_not_expire_again(database, travel):
    task = enqueue(expires=HOUR)
    travel(3601)
    taskqueue.expire()
    again = now_of(task).retry()
    assert (again.expires_at, claim_one().id) == (None, again.pk)


def test_the_framework_brings_it_along(database):
    result = tasks.noop.using(expires=HOUR, priority=3).enqueue()
    task = Task.objects.get(pk=result.id)
    assert (task.expires_at - task.created_at, task.priority) == (HOUR, 3)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"expires": timedelta(0)}, "more than zero"),
        ({"expires": -HOUR}, "more than zero"),
        ({"expires": timedelta(days=40000)}, "at most ten years"),
        ({"expires": 60}, "give an aware datetime"),
        ({"expires": datetime(2030, 1, 1)}, "give an aware datetime"),
        ({"expires": datetime(9500, 1, 1, tzinfo=UTC)}, "give a year from"),
        ({"expires": HOUR, "interval": 60}, "would end the series. Use a schedule"),
        ({"expires": HOUR, "eta": 2 * HOUR}, "before it is due. Give a later time"),
        ({"expires": timezone.now(), "eta": timezone.now() + HOUR}, "before it is due. Give a later time"),
    ],
)
def test_what_makes_no_sense_is_refused_and_says_what_to_do(database, options, says):
    with pytest.raises(InvalidCall, match=says):
        enqueue(**options)
    assert not Task.objects.exists()


def test_the_database_lets_nobody_start_an_expired_task(database, travel):
    task = enqueue(expires=HOUR)
    travel(3601)
    moment = now(database)
    with pytest.raises(IntegrityError), transaction.atomic(using=database):
        Task.objects.filter(pk=task.pk).update(
            status="RUNNING", attempts=1, locked_by="w", lock_expires_at=moment + HOUR, moved_by="w:1+",
            started_at=moment, last_attempt_at=moment, updated_at=moment,
        )  # fmt: skip


@pytest.mark.parametrize("value", [None, datetime(2099, 1, 1, tzinfo=UTC)])
def test_the_database_lets_nobody_put_off_an_expiry(database, value):
    task = enqueue(expires=HOUR)
    with pytest.raises(IntegrityError, match="never changes"), transaction.atomic(using=database):
        Task.objects.filter(pk=task.pk).update(expires_at=value)


def test_a_task_without_an_expiry_is_written_as_before(database):
    with CaptureQueriesContext(connections[database]) as captured:
        enqueue()
    if database == "postgresql":
        [only] = captured
        assert "expires" not in only["sql"]


@pytest.mark.fault("million_tasks_expired_at_once")
def test_a_crowd_that_expired_holds_up_neither_a_claim_nor_the_sweep(database, travel):
    crowd = Task.objects.enqueue_many([{"func": tasks.noop, "expires": HOUR, "priority": 9}] * 1200)
    travel(3601)
    behind = enqueue(priority=9)
    assert claim_one().id == behind.pk
    assert [len(taskqueue.expire()) for _ in range(4)] == [500, 500, 200, 0]
    assert Task.objects.cancelled().count() == len(crowd)
