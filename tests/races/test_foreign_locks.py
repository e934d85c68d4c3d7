"""Rows that somebody else keeps locked cost those tasks alone: no report, renewal or operator waits for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from django.db import connections, transaction

from django_tasks_retry import taskqueue
from django_tasks_retry.errors import IllegalMove
from django_tasks_retry.models import Task
from django_tasks_retry.rules.status import Status
from django_tasks_retry.taskqueue import Completed, Failed, Released, timeouts
from tests import tasks
from tests.model.invariants import violations
from tests.races.together import DEADLINE, beside, with_own_connections

pytestmark = pytest.mark.parametrize("on", ["postgresql"], indirect=True)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeouts, "LOCK_SECONDS", 0.2)


@contextmanager
def locked(using: str, task_id: UUID, how: str = "FOR UPDATE") -> Iterator[None]:
    """Somebody holds the row in a transaction and does nothing more; afterwards the lock is gone for certain."""
    somebody = connections.create_connection(using)
    try:
        with somebody.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute(f"SELECT 1 FROM django_tasks_retry_task WHERE id = %s {how}", [task_id])
            yield
            cursor.execute("ROLLBACK")  # a closed connection keeps its locks until the server has noticed
    finally:
        somebody.close()


def meanwhile(action: Callable[[], Any], using: str, task_id: UUID, how: str = "FOR UPDATE") -> Any:
    """Return the action's answer while the row is locked; an action that waits for it fails."""
    with ThreadPoolExecutor(1) as pool, locked(using, task_id, how):
        return pool.submit(with_own_connections(action)).result(DEADLINE)


def leased(count=3, worker="sup/1", **options):
    Task.objects.enqueue_many([{"func": tasks.noop, **options} for _ in range(count)])
    return taskqueue.claim(worker, limit=count)


def status_of(lease):
    return Task.objects.get(pk=lease.id).status


@pytest.mark.fault("report_about_a_locked_row")
@pytest.mark.parametrize("interval", [0, 3600])
def test_a_report_about_a_locked_row_is_busy_and_the_others_are_recorded(committed, interval):
    leases = leased(interval=interval)
    reports = [taskqueue.report_of(Completed(lease)) for lease in leases]
    receipts = meanwhile(partial(taskqueue.record, reports), committed, leases[1].id)
    assert [(receipt.accepted, receipt.is_busy, receipt.lost) for receipt in receipts] == [
        (True, False, None), (False, True, None), (True, False, None),
    ]  # fmt: skip
    assert [status_of(lease) for lease in leases] == ["SUCCESS", "RUNNING", "SUCCESS"]
    [receipt] = taskqueue.record([reports[1]])
    assert (receipt.accepted, status_of(leases[1])) == (True, "SUCCESS")
    assert violations(committed) == []


@pytest.mark.fault("report_about_a_locked_row")
@pytest.mark.parametrize("outcome", [Completed, partial(Failed, error=ValueError("x")), partial(Released, reason="x")])
def test_a_batch_of_outcomes_gives_up_on_a_locked_row_after_a_moment(committed, outcome):
    leases = leased()
    receipts = meanwhile(lambda: taskqueue.finish([outcome(lease) for lease in leases]), committed, leases[0].id)
    assert [receipt.is_busy for receipt in receipts] == [True, False, False]
    assert status_of(leases[0]) == "RUNNING"


@pytest.mark.fault("report_about_a_locked_row")
def test_a_report_about_a_lost_lease_is_lost_even_where_the_row_is_locked(committed):
    [lease] = leased(1, max_attempts=2)
    taskqueue.recover(actor="sup", dead="sup/1")
    [receipt] = meanwhile(lambda: taskqueue.record([taskqueue.report_of(Completed(lease))]), committed, lease.id)
    assert (receipt.is_busy, receipt.lost) == (False, "RECLAIMED")


def complete_atomically(lease, using):
    with transaction.atomic(using=using):
        return taskqueue.complete_within(lease, "done")


@pytest.mark.fault("report_about_a_locked_row")
def test_an_atomic_completion_waits_in_its_own_transaction(committed):
    [lease] = leased(1)
    touch = partial(Task.objects.using(committed).select_for_update().get, pk=lease.id)
    _, receipt, waited = beside(committed, touch, partial(complete_atomically, lease, committed))
    assert (waited, receipt.accepted, status_of(lease)) == (True, True, "SUCCESS")


@pytest.mark.fault("report_about_a_locked_row")
def test_an_atomic_completion_finds_the_row_that_was_renewed_while_it_waited(committed):
    [lease] = leased(1)
    renew, complete = partial(taskqueue.renew, [lease], 900.0), partial(complete_atomically, lease, committed)
    renewed, receipt, waited = beside(committed, renew, complete)
    assert (renewed, waited, receipt.accepted, status_of(lease)) == ({}, True, True, "SUCCESS")


@pytest.mark.fault("renewal_of_a_locked_row")
def test_a_renewal_passes_a_locked_row_by_and_knows_that_it_is_still_held(committed):
    leases = leased()
    before = {lease.id: lease.lock_expires_at for lease in leases}
    renewed = meanwhile(
        lambda: taskqueue.renew_workers(["sup/1"], 600.0, actor="sup", known=set(before)), committed, leases[0].id
    )
    assert renewed == {lease.id for lease in leases[1:]}
    assert taskqueue.find_leased(set(before) - renewed, ["sup/1"]) == {leases[0].id}
    assert meanwhile(partial(taskqueue.renew, leases, 900.0), committed, leases[0].id) == {}
    after = dict(Task.objects.values_list("pk", "lock_expires_at"))
    assert [after[lease.id] > before[lease.id] for lease in leases] == [False, True, True]


@pytest.mark.fault("operator_meets_a_locked_row")
def test_an_operator_cancels_the_others_and_is_told_of_the_locked_one(committed):
    Task.objects.enqueue_many([tasks.noop] * 3)
    ids = sorted(Task.objects.values_list("pk", flat=True))
    changed = meanwhile(partial(taskqueue.cancel, ids), committed, ids[0])
    assert (changed.done, changed.skipped) == (ids[1:], 1)
    assert taskqueue.cancel(ids).done == ids[:1]
    assert violations(committed) == []


@pytest.mark.fault("operator_meets_a_locked_row")
def test_cancelling_a_locked_task_says_that_it_is_locked(committed):
    task = Task.objects.enqueue(tasks.noop)
    with pytest.raises(IllegalMove, match=r"Somebody else keeps the PENDING task .* locked"):
        meanwhile(task.cancel, committed, task.pk)


@pytest.mark.fault("operator_meets_a_locked_row")
def test_an_operator_reschedules_the_others(committed):
    Task.objects.enqueue_many([tasks.noop] * 3)
    ids = sorted(Task.objects.values_list("pk", flat=True))
    changed = meanwhile(partial(taskqueue.reschedule, ids, priority=7), committed, ids[0])
    assert (changed.done, changed.skipped) == (ids[1:], 1)
    assert sorted(Task.objects.values_list("priority", flat=True)) == [0, 7, 7]


@pytest.mark.fault("operator_meets_a_locked_row")
def test_pruning_passes_a_locked_task_by_and_finds_it_the_next_time(committed):
    leases = leased()
    taskqueue.finish([Completed(lease) for lease in leases])
    prune = partial(taskqueue.prune, keep={Status.SUCCESS: -1.0})
    assert meanwhile(lambda: list(prune()), committed, leases[0].id) == [2]
    assert Task.objects.get().pk == leases[0].id
    assert list(prune()) == [1]
    assert violations(committed) == []


@pytest.mark.fault("operator_meets_a_locked_row")
def test_a_recovery_passes_a_locked_row_by(committed):
    leases = leased(max_attempts=2)
    recover = partial(taskqueue.recover, actor="sup", dead="sup/1")
    assert len(meanwhile(recover, committed, leases[0].id)) == 2
    assert [receipt.lease.id for receipt in recover()] == [leases[0].id]


@pytest.mark.fault("key_locked_by_a_reference")
@pytest.mark.parametrize("verb", ["claim", "record", "renew", "renew_workers", "recover", "cancel", "reschedule"])
def test_an_open_transaction_that_refers_to_a_task_is_no_hindrance(committed, verb):
    """A row of the project's that points at the task, say: its foreign key locks the key, and no more."""
    if verb in {"claim", "reschedule"}:
        task_id, lease = Task.objects.enqueue(tasks.noop).pk, None
    else:
        [lease] = leased(1)
        task_id = lease.id
    act = {
        "claim": lambda: [lease.id for lease in taskqueue.claim("sup/2")] == [task_id],
        "record": lambda: taskqueue.record([taskqueue.report_of(Completed(lease))])[0].accepted,
        "renew": lambda: Task.objects.get().lock_expires_at if taskqueue.renew([lease], 900.0) == {} else None,
        "renew_workers": lambda: taskqueue.renew_workers(["sup/1"], 60.0, actor="sup") == {task_id},
        "recover": lambda: len(taskqueue.recover(actor="sup", dead="sup/1")) == 1,
        "cancel": lambda: taskqueue.cancel([task_id]).done == [task_id],
        "reschedule": lambda: taskqueue.reschedule([task_id], priority=7).done == [task_id],
    }[verb]
    assert meanwhile(act, committed, task_id, "FOR KEY SHARE")


@pytest.mark.fault("key_locked_by_a_reference")
def test_an_enqueue_of_the_same_unique_key_that_is_not_yet_committed_holds_up_no_report(committed):
    [lease] = leased(1, unique_key="key", interval=3600)
    somebody_enqueues = partial(Task.objects.enqueue, tasks.noop, unique_key="key")
    complete = partial(taskqueue.record, [taskqueue.report_of(Completed(lease))])
    held, [receipt], waited = beside(committed, somebody_enqueues, complete)
    assert (held.already_enqueued, receipt.accepted, waited) == (True, True, False)
    assert Task.objects.pending().count() == 1
