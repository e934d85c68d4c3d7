"""Finish: many reports in one call, each accepted under its own fence or rejected with its own reason."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.db import transaction
from django.db.models.sql import Query

from django_tasks_retry import clock, taskqueue
from django_tasks_retry.errors import Abort, LeaseLost, LostReason
from django_tasks_retry.models import Task, TaskEvent, TaskResult
from django_tasks_retry.rules.status import Status
from django_tasks_retry.taskqueue import Completed, Failed, Released
from tests import tasks
from tests.steps import begin, claim_one, enqueue, everything, kinds, now_of


def leases(count, **options):
    Task.objects.enqueue_many([{"func": tasks.noop, "args": [n], **options} for n in range(count)])
    return taskqueue.claim("worker", limit=count)


def test_nothing_to_report_is_nothing(database):
    assert taskqueue.finish([]) == []


def test_plain_completions_need_no_statement_that_the_orm_writes(database, monkeypatch):
    """Writing one takes the client longer than all the rest of a report."""
    if database != "postgresql":
        pytest.skip("SQLite's statements are the ORM's")
    claimed = leases(2)
    monkeypatch.setattr(Query, "get_compiler", lambda *_, **__: pytest.fail("the ORM was asked"))
    receipts = taskqueue.finish([Completed(lease) for lease in claimed])
    assert [receipt.status for receipt in receipts] == ["SUCCESS", "SUCCESS"]


def test_outcomes_of_every_kind_in_one_call(database):
    done, failed, spent, released, unfit = leases(5, max_attempts=3)
    receipts = taskqueue.finish(
        [
            Completed(done, {"n": 1}),
            Failed(failed, ValueError("boom")),
            Failed(spent, Abort("no")),
            Released(released, "shutdown", 30),
            Completed(unfit, object()),
        ]
    )
    assert [receipt.status for receipt in receipts] == ["SUCCESS", "PENDING", "FAILED", "PENDING", "FAILED"]
    assert all(receipt.accepted for receipt in receipts)
    assert [receipt.lease for receipt in receipts] == [done, failed, spent, released, unfit]
    for receipt in receipts:
        task = Task.objects.get(pk=receipt.lease.id)
        assert (task.status, task.eta) == (receipt.status, receipt.eta)
    assert now_of(Task(pk=released.id)).refunds == 1


def test_answers_come_in_the_order_of_the_reports(database):
    held = leases(6)
    shuffled = [held[n] for n in (3, 0, 5, 1, 4, 2)]
    receipts = taskqueue.finish([Completed(lease, lease.args[0]) for lease in shuffled])
    assert [receipt.lease.id for receipt in receipts] == [lease.id for lease in shuffled]
    for lease in held:
        assert TaskResult.objects.get(pk=lease.id).result == lease.args[0]


def test_each_rejected_report_has_its_own_reason(database, travel):
    gone, cancelled, reclaimed, fine, expired = leases(5)
    Task.objects.get(pk=gone.id).cancel()
    list(taskqueue.prune(keep={Status.CANCELLED: -1}))
    Task.objects.get(pk=cancelled.id).cancel()
    taskqueue.release_task(reclaimed, "elsewhere")
    taskqueue.renew([fine], 1000)
    travel(61)
    receipts = taskqueue.finish([Completed(lease) for lease in (cancelled, gone, reclaimed, fine, expired)])
    assert [receipt.lost for receipt in receipts] == ["CANCELLED", "GONE", "RECLAIMED", None, "EXPIRED"]
    assert [receipt.accepted for receipt in receipts] == [False, False, False, True, False]


REASONS = {
    "CANCELLED": lambda task, lease, travel: task.cancel(),
    "EXPIRED": lambda task, lease, travel: travel(61),
    "RECLAIMED": lambda task, lease, travel: (travel(61), taskqueue.recover()),
    "GONE": lambda task, lease, travel: (task.cancel(), list(taskqueue.prune(keep={Status.CANCELLED: -1}))),
}
REPORTS = {
    "complete": lambda lease: taskqueue.complete_task(lease, 1),
    "fail": lambda lease: taskqueue.fail_task(lease, ValueError("late")),
    "release": lambda lease: taskqueue.release_task(lease, "late"),
}


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("report", REPORTS)
def test_a_lost_lease_says_why_and_changes_nothing(database, travel, reason, report):
    task, lease = begin()
    REASONS[reason](task, lease, travel)
    before = everything(task)
    with pytest.raises(LeaseLost) as lost:
        REPORTS[report](lease)
    assert (lost.value.reason, lost.value.task_id) == (reason, lease.id)
    assert "The outcome was dropped" in str(lost.value)
    assert everything(task) == before
    assert taskqueue.renew([lease]) == {lease.fence: LostReason(reason)}


@pytest.mark.parametrize("stale_first", [True, False])
def test_a_stale_and_a_current_lease_of_the_same_task_in_one_call(database, stale_first):
    task, stale = begin()
    taskqueue.release_task(stale, "elsewhere")
    current = claim_one()
    outcomes = [Completed(stale, "stale"), Completed(current, "current")]
    receipts = taskqueue.finish(outcomes if stale_first else outcomes[::-1])
    lost = {receipt.lease.attempts: receipt.lost for receipt in receipts}
    assert lost == {1: LostReason.RECLAIMED, 2: None}
    assert now_of(task).outcome.result == "current"


def test_the_same_lease_twice_in_one_call_counts_once(database):
    task, lease = begin()
    receipts = taskqueue.finish([Completed(lease, "one"), Completed(lease, "one")])
    assert sorted(receipt.accepted for receipt in receipts) == [False, True]
    assert TaskResult.objects.count() == 1
    assert kinds(task) == ["task.running", "task.completed"]


def test_the_same_lease_with_two_outcomes_has_one_of_them(database):
    task, lease = begin()
    receipts = taskqueue.finish([Failed(lease, ValueError("boom")), Completed(lease, 1)])
    [accepted] = [receipt for receipt in receipts if receipt.accepted]
    assert now_of(task).status == accepted.status
    assert len(kinds(task)) == (2 if accepted.status == "SUCCESS" else 3)


def test_leases_of_one_worker_are_told_apart_by_their_task(database):
    first, second = leases(2)
    assert first.signature == second.signature
    Task.objects.get(pk=first.id).cancel()
    assert [r.lost for r in taskqueue.finish([Completed(first), Completed(second)])] == ["CANCELLED", None]


@pytest.mark.parametrize("report", REPORTS)
def test_a_lease_in_another_name_is_rejected(database, report):
    task, lease = begin()
    foreign = lease._replace(locked_by="somebody else")
    before = everything(task)
    with pytest.raises(LeaseLost) as lost:
        REPORTS[report](foreign)
    assert lost.value.reason == "RECLAIMED"
    assert taskqueue.renew([foreign]) == {foreign.fence: LostReason.RECLAIMED}
    assert everything(task) == before


def test_renewing_many_tells_which_are_lost(database, travel):
    cancelled, fine, released = leases(3)
    Task.objects.get(pk=cancelled.id).cancel()
    taskqueue.release_task(released, "elsewhere")
    travel(30)
    assert taskqueue.renew([cancelled, fine, released]) == {
        cancelled.fence: LostReason.CANCELLED,
        released.fence: LostReason.RECLAIMED,
    }
    travel(45)
    assert taskqueue.complete_task(fine).status == "SUCCESS"


def test_a_renewal_never_shortens_a_lease(database):
    task, lease = begin()
    assert taskqueue.renew([lease], 1) == {}
    assert now_of(task).lock_expires_at == task.lock_expires_at


class HastyClock(datetime):
    """Ten seconds pass with each reading."""

    readings = 0

    @classmethod
    def now(cls, tz=None):
        cls.readings += 1
        return datetime.now(tz) + timedelta(seconds=10 * cls.readings)


@pytest.mark.parametrize("on", ["sqlite"], indirect=True)
def test_one_reading_of_the_clock_judges_a_move(database, monkeypatch):
    """The check and the guard agree whether a lease holds. On PostgreSQL the statement's own time sees to that."""
    enqueue()
    monkeypatch.setattr(clock, "datetime", HastyClock)
    lease = claim_one(lease=15)
    assert taskqueue.renew([lease], 15) == {}
    assert taskqueue.finish([Completed(lease)])[0].accepted


def test_a_report_belongs_to_the_transaction_of_its_caller(database):
    """An effect and its completion: both happen or neither does."""
    task, lease = begin()
    before = everything(task)
    with transaction.atomic(using=database):
        enqueue()
        taskqueue.complete_task(lease, 1)
        transaction.set_rollback(True, using=database)
    assert everything(task) == before
    assert Task.objects.count() == 1


def test_a_large_batch_of_mixed_outcomes(database):
    held = leases(600, max_attempts=2)
    for lease in held[::6]:
        Task.objects.get(pk=lease.id).cancel()
    outcomes = [Completed(lease, lease.args) if n % 2 else Failed(lease, ValueError()) for n, lease in enumerate(held)]
    receipts = taskqueue.finish(outcomes)
    expected = ["CANCELLED" if n % 6 == 0 else "SUCCESS" if n % 2 else "PENDING" for n in range(600)]
    assert [str(receipt.lost or receipt.status) for receipt in receipts] == expected
    assert [now_of(Task(pk=lease.id)).status for lease in held[:12]] == expected[:12]
    assert TaskEvent.objects.filter(kind="task.completed").count() == 300


@pytest.mark.parametrize("actor", [None, "w-1-a"])
def test_the_event_of_a_report_names_who_reported(database, actor):
    """A supervisor speaks for a child that died."""
    task, lease = begin("w-1-a/1")
    taskqueue.finish([Released(lease, "shutdown", None, actor)])
    [released] = TaskEvent.objects.filter(task_id=task.pk, kind="task.released")
    assert released.actor == (actor or lease.locked_by)
