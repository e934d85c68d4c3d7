"""Each move of the table, made through the service: what it writes, and what it tells, in order."""

from __future__ import annotations

from collections import Counter

import pytest

from django_tasks_retry import taskqueue
from django_tasks_retry.errors import Abort
from django_tasks_retry.models import Task, TaskEvent, TaskResult
from django_tasks_retry.rules import transitions as t
from django_tasks_retry.rules.status import FINISHED
from tests.steps import begin, claim_one, enqueue, kinds, now_of


def lose(travel, **options):
    task, _ = begin(**options)
    travel(61)
    taskqueue.recover()
    return task


def report(make, **options):
    task, lease = begin(**options)
    make(lease)
    return task


def cancelled(task):
    task.cancel(by="tests")
    return task


def rescheduled(task):
    taskqueue.reschedule([task.pk], priority=3)
    return task


MAKE = {
    t.ENQUEUE: lambda travel: enqueue(),
    t.CLAIM: lambda travel: begin()[0],
    t.CANCEL_PENDING: lambda travel: cancelled(enqueue()),
    t.RESCHEDULE: lambda travel: rescheduled(enqueue()),
    t.RENEW: lambda travel: report(lambda lease: taskqueue.renew([lease])),
    t.COMPLETE: lambda travel: report(lambda lease: taskqueue.complete_task(lease, 1)),
    t.REQUEUE: lambda travel: report(lambda lease: taskqueue.fail_task(lease, ValueError("boom"))),
    t.GIVE_UP: lambda travel: report(lambda lease: taskqueue.fail_task(lease, Abort("enough"))),
    t.LOSE: lambda travel: lose(travel),
    t.LOSE_FOR_GOOD: lambda travel: lose(travel, max_attempts=1),
    t.RELEASE: lambda travel: report(lambda lease: taskqueue.release_task(lease, "shutdown")),
    t.CANCEL_RUNNING: lambda travel: cancelled(begin()[0]),
}


def test_every_move_of_the_table_is_made_here():
    assert set(MAKE) == set(t.MOVES)


@pytest.mark.parametrize("move", t.MOVES, ids=str)
def test_a_move_writes_what_the_table_says(database, travel, move):
    task = now_of(MAKE[move](travel))
    claims = [t.CLAIM] if move.source is t.R else []
    assert task.status == move.target
    assert task.attempts == sum(made.attempts for made in [*claims, move])
    assert task.refunds == move.refunds
    assert kinds(task) == [kind for made in [*claims, move] for kind in made.events]
    assert TaskResult.objects.filter(task_id=task.pk).count() == (move.target in FINISHED)
    assert (task.finished_at is not None) == (move.target in FINISHED)
    assert (task.locked_by is not None) == (move.target is t.R)


@pytest.mark.parametrize("move", [move for move in t.MOVES if move.target in FINISHED], ids=str)
def test_a_final_move_and_its_result_agree(database, travel, move):
    task = now_of(MAKE[move](travel))
    result = task.outcome
    assert (result.status, result.attempts) == (task.status, task.attempts)
    assert result.finished_at == task.finished_at == task.updated_at == task.events.last().ts
    assert result.last_attempt_at == task.last_attempt_at


def test_a_lost_lease_of_a_spent_task_is_told_as_a_final_failure(database, travel):
    task = now_of(MAKE[t.LOSE_FOR_GOOD](travel))
    _, lost, failed = task.events.all()
    assert lost.data["worker"] == "worker"
    assert (failed.data["terminal"], failed.data["error"]["code"]) == (True, "LEASE_LOST")
    assert (task.last_error["code"], task.outcome.error["code"]) == ("LEASE_LOST", "LEASE_LOST")


def test_running_events_count_the_attempts_of_a_long_life(database, travel):
    """Failures, releases, snoozes and lost leases in turn."""
    task = enqueue(max_attempts=4)
    for end in (
        lambda lease: taskqueue.fail_task(lease, ValueError("boom")),
        lambda lease: taskqueue.release_task(lease, "shutdown"),
        lambda lease: taskqueue.release_task(lease, "snoozed", 30),
        lambda lease: (travel(31), taskqueue.recover()),
        lambda lease: taskqueue.fail_task(lease, ValueError("boom")),
        lambda lease: taskqueue.complete_task(lease),
    ):
        end(claim_one(lease=30))
        travel(100)
    task = now_of(task)
    counted = Counter(kinds(task))
    assert counted["task.running"] == task.attempts == 6
    assert counted["task.released"] == task.refunds == 2
    assert [event.attempt for event in task.events.filter(kind="task.running")] == [1, 2, 3, 4, 5, 6]


def test_nothing_is_told_after_a_final_event(database, travel):
    for move in t.MOVES:
        if move.target in FINISHED:
            task = MAKE[move](travel)
            before = kinds(task)
            taskqueue.cancel([task.pk])
            taskqueue.recover()
            taskqueue.claim("worker", limit=10)
            assert kinds(task) == before


def test_the_events_of_a_task_carry_the_whole_payload(database):
    task, lease = begin("worker-1")
    taskqueue.fail_task(lease, ValueError("boom"))
    failed = TaskEvent.objects.get(kind="task.failed").payload
    assert failed.items() >= {
        "task_id": task.pk, "run_id": task.run_id, "actor": "worker-1", "attempt": 1, "max_attempts": 5,
        "terminal": False,
    }.items()  # fmt: skip
    assert failed["error"].items() >= {
        "message": "boom", "code": "EXCEPTION", "exception": "builtins.ValueError",
    }.items()  # fmt: skip


def test_a_reason_and_an_actor_stand_in_what_operators_do(database, django_user_model):
    user = django_user_model.objects.create(username="ada")
    task = enqueue()
    taskqueue.reschedule([task.pk], by=user, reason="sooner")
    task.cancel(by=user, reason="a mistake")
    again = task.retry(by="script", reason="no mistake")
    told = [(e.kind, e.actor, e.data["reason"]) for e in TaskEvent.objects.filter(task__in=[task, again])]
    assert told == [
        ("task.rescheduled", f"user:{user.pk}", "sooner"),
        ("task.cancelled", f"user:{user.pk}", "a mistake"),
        ("task.retried", "script", "no mistake"),
    ]
    assert Task.objects.get(pk=again.pk).retry_of_id == task.pk
