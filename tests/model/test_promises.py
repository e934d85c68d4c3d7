"""Promises that no random life would put to the test."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.db import DatabaseError, connections, transaction

from django_tasks_retry import guard, taskqueue
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import ClaimMemory, Completed, Failed, Released
from tests import tasks
from tests.model.invariants import violations
from tests.races.together import wait_until


def test_a_lease_runs_out_even_inside_a_transaction_that_began_before(committed):
    with transaction.atomic(using=committed):
        task = Task.objects.enqueue(tasks.noop, max_attempts=2)
        taskqueue.claim("worker", lease=0.001)
        wait_until(lambda: [one.lease.id for one in taskqueue.recover()] == [task.pk], "the lease to run out")


@pytest.mark.fault("thundering_herd")
def test_tasks_that_fail_together_do_not_come_back_together(database):
    Task.objects.enqueue_many([(tasks.noop,)] * 200)
    leases = taskqueue.claim("worker", limit=200)
    receipts = taskqueue.finish([Failed(lease, ConnectionError("down")) for lease in leases])
    tenths = [int((receipt.eta - leases[0].last_attempt_at).total_seconds() * 10) for receipt in receipts]
    assert max(tenths.count(tenth) for tenth in tenths) < 100


@pytest.mark.fault("nul_surrogates_nan")
def test_an_error_text_that_no_database_holds_is_stored_escaped(database):
    task = Task.objects.enqueue(tasks.noop)
    [lease] = taskqueue.claim("worker")
    taskqueue.fail_task(lease, ValueError("nul \x00 and surrogate \ud800"))
    task.refresh_from_db()
    assert task.last_error["message"] == "nul \\u0000 and surrogate \\ud800"


@pytest.mark.fault("function_missing")
def test_a_task_of_an_unknown_function_is_left_for_a_worker_that_knows_it(database):
    Task.objects.enqueue(tasks.noop)
    assert taskqueue.claim("old", memory=ClaimMemory(paths=["tests.tasks.add"])) == []
    assert len(taskqueue.claim("new", memory=ClaimMemory(paths=["tests.tasks.noop"]))) == 1


def test_the_most_urgent_tasks_are_claimed_first_whatever_their_queue(database):
    lanes = [(queue, priority) for queue in ("default", "emails", "reports") for priority in (-5, 0, 5)]
    Task.objects.enqueue_many([{"func": tasks.noop, "queue": q, "priority": p} for q, p in lanes * 2])
    assert [taskqueue.claim("worker")[0].priority for _ in range(18)] == [5] * 6 + [0] * 6 + [-5] * 6


def test_a_repeating_task_keeps_to_its_slots_and_leaves_out_those_it_missed(database, travel):
    first = Task.objects.enqueue(tasks.noop, interval=60)
    [lease] = taskqueue.claim("worker", lease=600)
    travel(150)
    taskqueue.complete_task(lease)
    [following] = Task.objects.pending()
    assert following.eta == following.slot == first.eta + timedelta(seconds=180)


@pytest.mark.parametrize("on", ["sqlite"], indirect=True)
def test_a_table_that_was_remade_has_its_guard_again_after_migrate(committed):
    """SQLite drops a table's triggers with the table, and it remakes tables to alter them."""
    with connections[committed].schema_editor() as editor:
        editor._remake_table(Task)
    assert guard.missing(committed)
    call_command("migrate", database=committed, verbosity=0)
    assert guard.missing(committed) == set()


REFUSE_EVENTS = {
    "sqlite": [
        "CREATE TRIGGER no_events BEFORE INSERT ON django_tasks_retry_taskevent "
        "BEGIN SELECT RAISE(ABORT, 'no room for events'); END"
    ],
    "postgresql": [
        "CREATE FUNCTION no_events() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'no room for events'; END $$",
        "CREATE TRIGGER no_events BEFORE INSERT ON django_tasks_retry_taskevent EXECUTE FUNCTION no_events()",
    ],
}
ACCEPT_EVENTS = {
    "sqlite": ["DROP TRIGGER no_events"],
    "postgresql": ["DROP TRIGGER no_events ON django_tasks_retry_taskevent", "DROP FUNCTION no_events()"],
}


@contextmanager
def no_room_for_events(using):
    vendor = connections[using].vendor
    with connections[using].cursor() as cursor:
        for sql in REFUSE_EVENTS[vendor]:
            cursor.execute(sql)
        try:
            yield
        finally:
            for sql in ACCEPT_EVENTS[vendor]:
                cursor.execute(sql)


VERBS = {
    "claim": lambda lease: taskqueue.claim("worker"),
    "complete": lambda lease: taskqueue.finish([Completed(lease)]),
    "fail": lambda lease: taskqueue.finish([Failed(lease, ValueError("boom"))]),
    "release": lambda lease: taskqueue.finish([Released(lease, "shutdown")]),
    "recover": lambda lease: taskqueue.recover(actor="sup", dead="sup/1"),
    "cancel": lambda lease: taskqueue.cancel([lease.id]),
    "reschedule": lambda lease: taskqueue.reschedule(Task.objects.pending().values_list("pk", flat=True)),
    "retry": lambda lease: taskqueue.retry(Task.objects.finished().values_list("pk", flat=True)),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_move_whose_events_cannot_be_written_is_not_made(committed, verb):
    Task.objects.enqueue(tasks.noop)
    [lease] = taskqueue.claim("sup/1")
    taskqueue.cancel([Task.objects.enqueue(tasks.noop).pk])
    Task.objects.enqueue(tasks.noop)
    before = list(Task.objects.order_by("pk").values())
    with no_room_for_events(committed), pytest.raises(DatabaseError, match="no room for events"):
        VERBS[verb](lease)
    assert list(Task.objects.order_by("pk").values()) == before
    assert violations(committed) == []
