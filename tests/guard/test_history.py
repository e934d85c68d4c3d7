"""Results, events and what a row tells of its attempts: written with a move, in agreement with it, and never again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from django.db import IntegrityError, connections, transaction
from django.db.models import F
from django.utils import timezone

from django_tasks_retry import guard, taskqueue
from django_tasks_retry.clock import now
from django_tasks_retry.models import Task, TaskEvent, TaskResult
from django_tasks_retry.rules.status import FINISHED, Status
from django_tasks_retry.taskqueue.renewal import report_progress
from tests.steps import begin, claim_one, enqueue, kinds, now_of, refused_by_the_database, task_in

UNLEASED = {"locked_by": None, "lock_expires_at": None}
LATER = datetime(2999, 1, 1, tzinfo=UTC)
STORED = (
    "INSERT INTO django_tasks_retry_taskresult (task_id, status, attempts, finished_at) "
    "SELECT id, '{status}', {attempts}, updated_at FROM django_tasks_retry_task"
)


def write(task, **changes):
    Task.objects.filter(pk=task.pk).update(**changes)


def write_result(task, using, **values):
    given = {"status": "CANCELLED", "attempts": task.attempts, "finished_at": now(using)} | values
    return TaskResult.objects.create(task_id=task.pk, **given)


@pytest.mark.fault("result_that_contradicts_its_task")
@pytest.mark.parametrize("source", [Status.PENDING, Status.RUNNING])
@pytest.mark.parametrize("lie", [{"attempts": 0}, {"attempts": 7}, {"status": "SUCCESS"}], ids=str)
def test_a_result_that_no_move_of_its_task_can_come_to(database, source, lie):
    task, _ = task_in(source)
    if source is Status.RUNNING and "status" in lie:
        lie = {"status": "SUCCESS", "attempts": 2}
    with refused_by_the_database(task, database):
        write_result(task, database, **lie)


@pytest.mark.fault("result_that_contradicts_its_task")
@pytest.mark.parametrize("status", FINISHED)
def test_a_second_result(database, status):
    task, _ = task_in(status)
    with refused_by_the_database(task, database):
        write_result(task, database, status=status.value)
    with refused_by_the_database(task, database), connections[database].cursor() as cursor:
        or_replace = "INSERT" if connections[database].vendor == "postgresql" else "INSERT OR REPLACE"
        cursor.execute(STORED.format(status=status, attempts=1).replace("INSERT", or_replace))


@pytest.mark.fault("result_that_contradicts_its_task")
def test_a_result_without_a_task(database):
    with pytest.raises(IntegrityError), transaction.atomic(using=database):
        write_result(Task(pk=uuid4(), attempts=1), database)


@pytest.mark.fault("result_that_contradicts_its_task")
def test_an_end_that_contradicts_its_result(database):
    task, lease = begin()
    with refused_by_the_database(task, database):
        write_result(task, database, status="FAILED")
        write(task, status="SUCCESS", finished_at=now(database), moved_by=lease.signature, **UNLEASED)


@pytest.mark.needs("deferrable_triggers")
@pytest.mark.fault("result_that_contradicts_its_task")
@pytest.mark.parametrize("on", ["postgresql"], indirect=True)
def test_a_result_that_is_left_beside_an_unfinished_task_is_refused_with_the_transaction(committed):
    task, _ = begin()
    with pytest.raises(IntegrityError, match="with the final move"), transaction.atomic(using=committed):
        write_result(task, committed)
    with pytest.raises(IntegrityError, match="with the final move"):  # whoever says that it is of this statement
        connections[committed].cursor().execute(
            STORED.format(status="CANCELLED", attempts=1).replace("updated_at", "statement_timestamp()")
        )
    assert not TaskResult.objects.exists()


@pytest.fixture
def stray(committed):
    """A running task whose last attempt this is, beside a result from a time without the guard; and others."""
    cursed, others = enqueue(max_attempts=1), [enqueue(max_attempts=1) for _ in range(3)]
    leases = taskqueue.claim("worker", limit=4)
    with connections[committed].cursor() as cursor:
        if connections[committed].vendor == "sqlite":
            guard.remove_before_migrate(committed, plan=[(Ours(), False)])
        else:
            cursor.execute("ALTER TABLE django_tasks_retry_taskresult DISABLE TRIGGER USER")
        write_result(now_of(cursed), committed, status="SUCCESS", attempts=9)
        if connections[committed].vendor == "postgresql":
            cursor.execute("ALTER TABLE django_tasks_retry_taskresult ENABLE TRIGGER USER")
        else:
            sqlite_guard_without_a_sweep(committed)
    return cursed, others, leases


class Ours:
    app_label = "django_tasks_retry"


def sqlite_guard_without_a_sweep(using):
    with connections[using].cursor() as cursor:
        for sql in guard.sqlite_statements().values():
            cursor.execute(sql)


@pytest.mark.fault("stray_result_beside_a_batch")
def test_a_stray_result_stops_no_recovery(stray, travel):
    cursed, others, _ = stray
    travel(61)
    assert {receipt.lease.id for receipt in taskqueue.recover()} == {cursed.pk, *(task.pk for task in others)}
    assert now_of(cursed).outcome.status == "FAILED"


@pytest.mark.fault("stray_result_beside_a_batch")
def test_a_stray_result_stops_no_report(stray):
    cursed, others, leases = stray
    receipts = taskqueue.finish([taskqueue.Completed(lease, 1) for lease in leases])
    assert all(receipt.accepted for receipt in receipts)
    assert {now_of(task).outcome.attempts for task in (cursed, *others)} == {1}


@pytest.mark.fault("stray_result_beside_a_batch")
def test_a_stray_result_stops_no_cancellation_of_others(stray):
    cursed, others, _ = stray
    changed = taskqueue.cancel([cursed.pk, *(task.pk for task in others)])
    assert {task.pk for task in others} <= set(changed.done)
    assert {now_of(task).status for task in others} == {"CANCELLED"}


@pytest.mark.fault("stray_result_beside_a_batch")
def test_installing_the_guard_forgets_stray_results(stray, committed):
    cursed, *_ = stray
    with connections[committed].cursor() as cursor:
        on = "" if connections[committed].vendor == "sqlite" else " ON django_tasks_retry_task"
        cursor.execute(f"DROP TRIGGER dtr_guard_call{on}")
    guard.install(committed)
    assert not TaskResult.objects.filter(pk=cursed.pk).exists()


def tell(task, **values):
    row = now_of(task)
    given = {"kind": "task.running", "ts": row.updated_at, "attempt": row.attempts, "actor": "x"} | values
    return TaskEvent.objects.create(task_id=task.pk, **given)


@pytest.mark.fault("event_without_its_move")
@pytest.mark.parametrize("status", FINISHED)
@pytest.mark.parametrize(
    "kind", ["task.running", "task.completed", "task.failed", "task.cancelled", "task.lease_lost", "task.made_up"]
)
def test_an_event_after_the_final_one(database, status, kind):
    task, _ = task_in(status)
    for ts in (timezone.now(), task.updated_at + timedelta(seconds=1)):
        with refused_by_the_database(task, database):
            tell(task, kind=kind, ts=ts)
    if kind != "task.lease_lost":  # which a FAILED task may tell of, by the same move
        with refused_by_the_database(task, database):
            tell(task, kind=kind)


@pytest.mark.fault("event_without_its_move")
@pytest.mark.parametrize("status", list(Status))
def test_an_event_that_was_told_before(database, status):
    task, _ = task_in(status)
    event = TaskEvent.objects.filter(task_id=task.pk).latest("id")
    event.pk = None
    with refused_by_the_database(task, database):
        event.save(force_insert=True)


@pytest.mark.fault("event_without_its_move")
@pytest.mark.parametrize("attempt", [0, 2, 99])
def test_an_event_of_another_attempt(database, attempt):
    task, _ = begin()
    with refused_by_the_database(task, database):
        tell(task, kind="task.failed", attempt=attempt)
    with refused_by_the_database(task, database):
        tell(task, attempt=attempt)


@pytest.mark.fault("event_without_its_move")
def test_an_event_of_a_task_that_is_not_there(database):
    with pytest.raises(IntegrityError), transaction.atomic(using=database):
        TaskEvent.objects.create(task_id=uuid4(), kind="task.running", ts=now(database), attempt=1, actor="x")


LIES = [
    {"lock_expires_at": LATER},
    {"lock_expires_at": F("lock_expires_at") + timedelta(seconds=1)},
    {"started_at": None},
    {"last_attempt_at": LATER},
    {"last_error": {"message": "a lie"}},
    {"fingerprint": "f" * 16},
    {"progress": {"done": 1}},
    {"updated_at": LATER},
]


@pytest.mark.fault("history_rewritten")
@pytest.mark.parametrize("change", LIES, ids=lambda change: "-".join(change))
def test_a_running_row_changed_by_whoever_states_no_lease(database, change):
    task, lease = begin()
    with refused_by_the_database(task, database):
        write(task, **change)
    assert taskqueue.renew([lease]) == {}
    with refused_by_the_database(task, database):
        write(task, **change)


@pytest.mark.fault("history_rewritten")
@pytest.mark.parametrize("change", LIES[2:6], ids=lambda change: "-".join(change))
def test_a_renewal_that_rewrites_the_history(database, change):
    task, lease = begin()
    with refused_by_the_database(task, database):
        write(task, moved_by=f"{lease.signature}++", **change)


@pytest.mark.fault("history_rewritten")
@pytest.mark.parametrize("change", LIES[2:7], ids=lambda change: "-".join(change))
def test_a_pending_row_whose_history_is_rewritten(database, change):
    task, lease = begin(backoff=[0])
    taskqueue.fail_task(lease, ValueError("no"))
    with refused_by_the_database(task, database):
        write(task, **change)


@pytest.mark.fault("history_rewritten")
def test_a_claim_that_rewrites_the_history(database):
    task, lease = begin(backoff=[0])
    taskqueue.fail_task(lease, ValueError("no"))
    claim = {"status": "RUNNING", "attempts": 2, "locked_by": "w", "moved_by": "w:2+", "lock_expires_at": LATER}
    for lie in ({"started_at": now(database)}, {"last_error": None}, {"fingerprint": None}, {"progress": {"done": 1}}):
        with refused_by_the_database(task, database):
            write(task, **claim, **lie)
    write(task, **claim)


@pytest.mark.fault("history_rewritten")
@pytest.mark.parametrize(
    "lived",
    [
        {"started_at": timezone.now()},
        {"last_attempt_at": timezone.now()},
        {"last_error": {"message": "?"}},
        {"fingerprint": "f" * 16},
        {"progress": {"done": 1}},
        {"moved_by": "somebody"},
    ],
    ids=lambda lived: "-".join(lived),
)
def test_a_new_task_with_a_history(database, lived):
    task = enqueue()
    copy = {field.attname: getattr(task, field.attname) for field in Task._meta.fields} | lived
    with refused_by_the_database(task, database):
        Task.objects.create(**copy | {"id": uuid4()})


def test_renewals_and_progress_take_turns_without_end(database):
    """Each changes what the last one left in the row, whoever made it."""
    task, lease = begin("house/1")
    for _ in range(3):
        assert taskqueue.renew([lease]) == {}
        assert taskqueue.renew([lease], actor="house") == {}
        assert taskqueue.renew([lease], actor="house") == {}
        assert taskqueue.renew_workers(["house/1"], 60, actor="house") == {task.pk}
        report_progress(lease, 1)
        report_progress(lease, 2)
    taskqueue.complete_task(lease)
    assert kinds(task) == ["task.running", "task.completed"]


def test_the_moment_of_an_event_is_that_of_its_move(database):
    task = enqueue(eta=timedelta(hours=1))
    taskqueue.reschedule([task.pk], by="me")
    claim_one()
    taskqueue.cancel([task.pk], by="me")
    assert TaskEvent.objects.latest("id").ts == now_of(task).finished_at
