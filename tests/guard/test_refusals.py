"""The finer refusals of the database: a legal pair of statuses, but the wrong hand, time or columns."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models import F
from django.utils import timezone

from django_tasks_retry import taskqueue
from django_tasks_retry.clock import now
from django_tasks_retry.errors import LostReason
from django_tasks_retry.models import Task, TaskEvent, TaskResult
from django_tasks_retry.rules.status import FINISHED, Status
from django_tasks_retry.taskqueue import Completed
from tests.steps import begin, enqueue, now_of, refused_by_the_database, task_in

UNLEASED = {"locked_by": None, "lock_expires_at": None}
TO_PENDING = {"status": "PENDING", **UNLEASED}


def write(task, **changes):
    Task.objects.filter(pk=task.pk).update(**changes)


def finish_by_hand(task, using, status="SUCCESS", **changes):
    moment = now(using)
    TaskResult.objects.create(task_id=task.pk, status=status, attempts=task.attempts, finished_at=moment)
    write(task, status=status, finished_at=moment, **UNLEASED, **changes)


def test_a_report_that_states_no_lease(database):
    task, _ = begin()
    with refused_by_the_database(task, database):
        write(task, **TO_PENDING)
    with refused_by_the_database(task, database):
        finish_by_hand(task, database)


@pytest.mark.parametrize("signature", ["somebody:1", "worker:2", "worker", "", None, "worker:1+", "worke"])
def test_a_report_that_states_another_lease(database, signature):
    task, _ = begin("worker")
    with refused_by_the_database(task, database):
        finish_by_hand(task, database, moved_by=signature)
    with refused_by_the_database(task, database):
        write(task, **TO_PENDING, moved_by=signature)


def test_a_lease_that_was_renewed_is_no_easier_to_take(database):
    """Neither the holder's renewal nor its supervisor's leaves in the row what would end the lease."""
    task, lease = begin("house/1")
    for actor in (None, "house"):
        assert taskqueue.renew([lease], actor=actor) == {}
        with refused_by_the_database(task, database):
            write(task, **TO_PENDING)


def test_a_report_under_an_expired_lease(database, travel):
    task, lease = begin()
    travel(60)
    with refused_by_the_database(task, database):
        finish_by_hand(task, database, moved_by=lease.signature)
    with refused_by_the_database(task, database):
        write(task, moved_by=f"{lease.signature}+", lock_expires_at=F("lock_expires_at") + timedelta(hours=1))


def test_attempts_that_go_down(database):
    task, lease = begin()
    with refused_by_the_database(task, database):
        write(task, attempts=0, **TO_PENDING, moved_by=lease.signature)
    with refused_by_the_database(task, database):
        write(task, attempts=0, moved_by=f"{lease.signature}+")


def test_attempts_that_go_up_without_a_claim(database):
    task = enqueue()
    with refused_by_the_database(task, database):
        write(task, attempts=1)


OTHERWISE = {
    "func_path": "tests.tasks.add",
    "args": [666],
    "kwargs": {"rm": "-rf"},
    "max_attempts": 99,
    "backoff": [1],
    "timeout": 1.0,
    "interval": 1.0,
    "unique_key": "another",
    "metadata": {"x": 1},
    "backend": "another",
    "created_at": timezone.now() - timedelta(days=9),
}


@pytest.mark.parametrize("status", [Status.PENDING, Status.RUNNING])
@pytest.mark.parametrize("column", OTHERWISE)
def test_a_rewritten_call(database, status, column):
    task, _ = task_in(status)
    slot = {"slot": task.eta} if column == "interval" else {}
    with refused_by_the_database(task, database):
        write(task, **{column: OTHERWISE[column]}, **slot)


@pytest.mark.parametrize(
    "change",
    [
        {"locked_by": "thief"},
        {"locked_by": "thief", "moved_by": "thief:1+"},
        {"lock_expires_at": F("lock_expires_at") - timedelta(seconds=30)},
        {"eta": F("eta") + timedelta(days=1)},
        {"queue": "bulk"},
        {"priority": 9},
        TO_PENDING,
        {**TO_PENDING, "moved_by": "thief"},
        {**TO_PENDING, "refunds": F("refunds") + 1, "moved_by": "thief:1"},
    ],
)
def test_a_live_lease_taken_away(database, change):
    task, _ = begin()
    with refused_by_the_database(task, database):
        write(task, **change)


@pytest.mark.parametrize("status", FINISHED)
def test_a_finished_row_touched_in_any_column(database, status):
    """Not even a write of the very same value."""
    task, _ = task_in(status)
    for field in Task._meta.fields:
        with refused_by_the_database(task, database):
            write(task, **{field.attname: F(field.attname)})


def test_a_finished_row_saved_as_it_was_read(database):
    task, _ = task_in(Status.SUCCESS)
    with refused_by_the_database(task, database):
        task.save()


@pytest.mark.parametrize("status", FINISHED)
def test_a_task_finished_without_its_result(database, status):
    task, lease = begin()
    with refused_by_the_database(task, database):
        write(task, status=status.value, finished_at=now(database), **UNLEASED, moved_by=lease.signature)


@pytest.mark.parametrize("row", [TaskEvent, TaskResult])
def test_a_rewritten_event_or_result(database, row):
    task, _ = task_in(Status.SUCCESS)
    with refused_by_the_database(task, database):
        row.objects.filter(task_id=task.pk).update(attempts=9) if row is TaskResult else row.objects.update(actor="me")


@pytest.mark.parametrize(
    "unfresh",
    [
        {"status": "RUNNING", "attempts": 1, "locked_by": "me", "lock_expires_at": timezone.now() + timedelta(days=1)},
        {"status": "SUCCESS", "attempts": 1, "finished_at": timezone.now()},
        {"status": "CANCELLED", "finished_at": timezone.now()},
        {"attempts": 1},
        {"attempts": 1, "refunds": 1},
    ],
)
def test_a_task_that_begins_in_the_middle(database, unfresh):
    task = enqueue()
    copy = {field.attname: getattr(task, field.attname) for field in Task._meta.fields} | unfresh
    with refused_by_the_database(task, database):
        Task.objects.create(**copy | {"id": task.pk.__class__(int=1)})


def test_a_claim_before_the_eta(database):
    task = enqueue(eta=timedelta(minutes=1))
    with refused_by_the_database(task, database):
        expiry = now(database) + timedelta(seconds=60)
        write(task, status="RUNNING", attempts=1, locked_by="w", lock_expires_at=expiry, moved_by="w:1+")


@pytest.mark.parametrize("signature", ["w", "w:1", "w:2+", "v:1+", None])
def test_a_claim_that_does_not_state_its_lease(database, signature):
    task = enqueue()
    with refused_by_the_database(task, database):
        expiry = now(database) + timedelta(seconds=60)
        write(task, status="RUNNING", attempts=1, locked_by="w", lock_expires_at=expiry, moved_by=signature)


def test_a_lease_that_is_granted_for_the_past(database):
    task = enqueue()
    with refused_by_the_database(task, database):
        write(task, status="RUNNING", attempts=1, locked_by="w", lock_expires_at=now(database), moved_by="w:1+")


def test_a_refund_by_a_stranger(database, travel):
    """Once a lease has expired anyone may take the task back, but nobody gives the attempt back."""
    task, lease = begin()
    travel(61)
    for signature in ("stranger", lease.signature):
        with refused_by_the_database(task, database):
            write(task, **TO_PENDING, refunds=1, moved_by=signature)
    write(task, **TO_PENDING, moved_by="stranger")


def test_a_lost_lease_with_budget_left_is_not_a_failure(database, travel):
    task, _ = begin()
    travel(61)
    with refused_by_the_database(task, database):
        finish_by_hand(task, database, status="FAILED", moved_by="stranger")


def test_a_requeue_without_budget(database):
    task, lease = begin(max_attempts=1)
    with refused_by_the_database(task, database):
        write(task, **TO_PENDING, moved_by=lease.signature)


@pytest.mark.fault("row_deleted")
@pytest.mark.parametrize("status", [Status.PENDING, Status.RUNNING])
def test_an_unfinished_row_deleted(database, status):
    task, _ = task_in(status)
    with refused_by_the_database(task, database):
        Task.objects.filter(pk=task.pk)._raw_delete(database)


@pytest.mark.parametrize("row", [TaskEvent, TaskResult])
def test_the_history_of_a_task_deleted_before_the_task(database, row):
    task, _ = task_in(Status.SUCCESS)
    with refused_by_the_database(task, database):
        row.objects.filter(task_id=task.pk).delete()


@pytest.mark.parametrize("name", ["hous", "house/1", "house/", "House", "ouse", "hous_", "%", "house/1:1+"])
def test_a_takeover_by_a_false_supervisor(database, name):
    task, lease = begin("house/1")
    with refused_by_the_database(task, database):
        taskqueue.recover(actor=name, dead="house/1")
    with refused_by_the_database(task, database):
        taskqueue.finish([Completed(lease, actor=name)])
    with refused_by_the_database(task, database):
        taskqueue.renew([lease], actor=name)


def test_a_true_supervisor_speaks_for_its_worker(database):
    task, lease = begin("house/1")
    assert taskqueue.renew([lease], actor="house") == {}
    [recovered] = taskqueue.recover(actor="house", dead="house/1")
    assert recovered.lease.locked_by == "house/1"
    assert taskqueue.renew([lease]) == {lease.fence: LostReason.RECLAIMED}
    assert now_of(task).status == "PENDING"


@pytest.mark.parametrize("change", [{"eta": timedelta(0)}, {"queue": "emails"}, {"priority": 9}], ids=str)
def test_a_lost_lease_that_costs_the_task_its_place_in_line(database, travel, change):
    task, _ = begin()
    travel(61)
    moment = now(database)
    if "eta" in change:
        change = {"eta": moment}
    with refused_by_the_database(task, database):
        Task.objects.filter(pk=task.pk).update(
            status="PENDING", locked_by=None, lock_expires_at=None, moved_by="anyone", updated_at=moment, **change
        )
