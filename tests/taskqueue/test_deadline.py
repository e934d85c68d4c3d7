"""Deadlines: a task that has not finished by then is cancelled, begun or not, and so are the members it waits for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from django_tasks_retry import call, taskqueue
from django_tasks_retry.clock import now
from django_tasks_retry.display.explain import explain
from django_tasks_retry.display.scope import Scope
from django_tasks_retry.errors import InvalidCall, LeaseLost
from django_tasks_retry.models import Task, TaskEvent, TaskResult
from django_tasks_retry.rules.status import Status
from django_tasks_retry.taskqueue.recording import LATE
from django_tasks_retry.testing.inline import run_inline
from tests import tasks
from tests.steps import claim_one, enqueue, kinds, now_of
from tests.workflows import tasks as flows

HOUR = timedelta(hours=1)


def why(task: Task, using: str) -> str:
    return explain(now_of(task), [], Scope("default", using, now(using)), can_see_payload=True).sentence


def test_a_task_that_waits_for_its_retry_never_begins_again_after_the_deadline(database, travel):
    task = enqueue(deadline=HOUR)
    taskqueue.fail_task(claim_one(), ValueError())
    travel(3601)
    assert taskqueue.claim("worker") == []
    assert taskqueue.expire(actor="w") == [task.pk]
    ended = now_of(task)
    assert (ended.status, ended.attempts, kinds(task)[-1]) == (Status.CANCELLED, 1, "task.cancelled")
    assert TaskEvent.objects.filter(task=task).last().data == {"reason": LATE}
    assert TaskResult.objects.get(task=task).error == {"message": LATE, "code": "CANCELLED", "actor": "w"}


def test_a_running_task_loses_its_lease_at_the_deadline(database, travel):
    task = enqueue(deadline=HOUR)
    lease = claim_one(lease=7200)
    travel(3500)
    assert taskqueue.expire() == []
    travel(3601)
    assert taskqueue.expire() == [task.pk]
    with pytest.raises(LeaseLost, match="CANCELLED"):
        taskqueue.complete_task(lease, "too late")
    assert now_of(task).status == Status.CANCELLED


def test_a_task_that_never_began_is_cancelled_for_its_deadline(database, travel):
    task = enqueue(deadline=HOUR)
    travel(3601)
    assert taskqueue.claim("worker") == []
    assert taskqueue.expire() == [task.pk]
    assert TaskEvent.objects.get(task=task).data == {"reason": LATE}


def test_a_retry_in_time_is_claimed_and_may_succeed(database, travel):
    task = enqueue(deadline=HOUR, expires=timedelta(minutes=1))
    taskqueue.fail_task(claim_one(), ValueError())
    travel(1800)
    taskqueue.complete_task(claim_one(), None)
    travel(3601)
    assert taskqueue.expire() == []
    assert now_of(task).status == Status.SUCCESS


@pytest.mark.parametrize("beside", [0, 2], ids=["alone", "with others"])
def test_it_expires_by_its_deadline_at_the_latest(database, beside):
    at = datetime(2099, 1, 2, 3, 4, 5, tzinfo=UTC)
    options = [
        {"deadline": HOUR}, {"deadline": at}, {"deadline": HOUR, "expires": 2 * HOUR},
        {"deadline": at, "expires": HOUR}, {"deadline": HOUR, "expires": at},
    ]  # fmt: skip
    for given in options:
        others = [taskqueue.EnqueueOptions(tasks.noop)] * beside
        [task, *rest] = taskqueue.enqueue_many([taskqueue.EnqueueOptions(tasks.noop, **given), *others])
        deadline = at if given["deadline"] == at else task.created_at + HOUR
        expires = task.created_at + HOUR if given.get("expires") == HOUR else deadline
        stored = now_of(task)
        assert (task.deadline_at, task.expires_at) == (stored.deadline_at, stored.expires_at) == (deadline, expires)
        assert [(other.deadline_at, now_of(other).expires_at) for other in rest] == [(None, None)] * beside


def test_members_have_the_deadline_of_the_task_that_waits_for_them(database, travel):
    task = enqueue(flows.fan_out, [1, 2], deadline=HOUR)
    run_inline(claim_one())
    members = list(Task.objects.filter(parent=task))
    assert len(members) == 2
    assert {member.deadline_at for member in members} == {now_of(task).deadline_at}
    travel(3601)
    taskqueue.expire()
    assert {now_of(member).status for member in [task, *members]} == {Status.CANCELLED}


def test_members_of_a_callback_have_its_deadline_unless_theirs_is_earlier(database):
    then = call(tasks.noop).using(deadline=HOUR)
    early = call(tasks.noop).using(deadline=timedelta(minutes=5))
    first, second = Task.objects.enqueue_many([call(tasks.noop), early], then=then)
    assert (first.deadline_at - first.created_at, second.deadline_at - second.created_at) == (HOUR, HOUR / 12)


def test_why_tells_of_the_deadline(database, travel):
    task = enqueue(deadline=HOUR)
    assert "Its deadline is" in why(task, database)
    claim_one(lease=7200)
    assert "Its deadline is" in why(task, database)
    waits = enqueue(deadline=HOUR)
    travel(3601)
    assert why(waits, database).startswith("Its deadline passed at")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"deadline": timedelta(0)}, "more than zero"),
        ({"deadline": 60}, "give an aware datetime"),
        ({"deadline": HOUR, "interval": 60}, "would end the series. Use a schedule"),
        ({"deadline": HOUR, "eta": 2 * HOUR}, "before it is due. Give a later time"),
        ({"deadline": timezone.now(), "eta": timezone.now() + HOUR}, "before it is due. Give a later time"),
        ({"deadline": HOUR, "unique_key": "k", "debounce": 3}, "deadline=: calls that put it off"),
    ],
)
def test_what_makes_no_sense_is_refused_and_says_what_to_do(database, options, says):
    with pytest.raises(InvalidCall, match=says):
        enqueue(**options)


def test_the_database_lets_nobody_start_an_attempt_after_the_deadline(database, travel):
    task = enqueue(deadline=HOUR)
    taskqueue.fail_task(claim_one(), ValueError())
    travel(3601)
    moment = now(database)
    with pytest.raises(IntegrityError), transaction.atomic(using=database):
        Task.objects.filter(pk=task.pk).update(
            status="RUNNING", attempts=2, locked_by="w", lock_expires_at=moment + HOUR, moved_by="w:2+",
            last_attempt_at=moment, updated_at=moment,
        )  # fmt: skip


@pytest.mark.parametrize("value", [None, datetime(2099, 1, 1, tzinfo=UTC)])
def test_the_database_lets_nobody_put_off_a_deadline(database, value):
    task = enqueue(deadline=HOUR)
    with pytest.raises(IntegrityError, match="never changes"), transaction.atomic(using=database):
        Task.objects.filter(pk=task.pk).update(deadline_at=value)
