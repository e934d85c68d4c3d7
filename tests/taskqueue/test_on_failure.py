"""on_failure: a call that is enqueued in the transaction in which its task fails for good."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction

from django_tasks_retry import call, taskqueue
from django_tasks_retry.errors import Abort, InvalidCall, UnregisteredTask
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import Failed
from django_tasks_retry.taskqueue.engines import engine_for
from django_tasks_retry.taskqueue.enqueue.insert import insert
from django_tasks_retry.taskqueue.new_tasks import NEW_COLUMNS, new_id, new_task
from tests import tasks
from tests.admin.unguarded import overwrite
from tests.steps import claim_one, enqueue, now_of

REPORT = call(tasks.add, 3)


def followers(task: Task) -> list[Task]:
    return list(Task.objects.filter(parent=task).order_by("pk"))


def fail(task: Task, **claim) -> None:
    taskqueue.fail_task(claim_one(**claim), Abort("no"))
    assert now_of(task).status == "FAILED"


def test_the_call_is_enqueued_with_the_id_of_the_task_that_failed(database):
    task = enqueue(on_failure=call(tasks.noop, 3).using(queue="emails", priority=4, max_attempts=2))
    fail(task)
    [follower] = followers(task)
    assert (follower.func_path, follower.args) == ("tests.tasks.noop", [str(task.pk), 3])
    assert (follower.queue, follower.priority, follower.max_attempts) == ("emails", 4, 2)
    assert (follower.run_id, follower.status, follower.lane) == (task.run_id, "PENDING", "")
    assert claim_one(queues=["emails"]).id == follower.pk


def test_an_immutable_call_gets_its_own_arguments_alone(database):
    task = enqueue(on_failure=call(tasks.optional_nothing).immutable())
    fail(task)
    assert followers(task)[0].args == []


def test_a_delay_counts_from_the_failure(database, travel):
    task = enqueue(on_failure=call(tasks.noop).using(eta=timedelta(hours=1), deadline=timedelta(hours=2)))
    travel(5000)
    fail(task)
    [follower] = followers(task)
    began = follower.created_at
    assert (follower.eta - began, follower.deadline_at - began) == (timedelta(hours=1), timedelta(hours=2))
    assert began >= now_of(task).finished_at


def test_a_failure_that_is_retried_a_success_and_a_cancellation_enqueue_nothing(database, travel):
    task = enqueue(tasks.noop, on_failure=REPORT, max_attempts=2)
    taskqueue.fail_task(claim_one(), ValueError())
    assert followers(task) == []
    travel(60)
    taskqueue.complete_task(claim_one(), None)
    other = enqueue(on_failure=REPORT)
    now_of(other).cancel()
    assert followers(task) + followers(other) == []


def test_a_task_whose_worker_was_lost_for_good_enqueues_it_once(database, travel):
    task = enqueue(on_failure=REPORT, max_attempts=1)
    claim_one(lease=5)
    travel(6)
    taskqueue.recover()
    taskqueue.recover()
    assert (now_of(task).status, len(followers(task))) == ("FAILED", 1)


def test_a_report_that_is_rejected_enqueues_nothing(database):
    task = enqueue(on_failure=REPORT)
    lease = claim_one()
    first, second = taskqueue.finish([Failed(lease, Abort("no")), Failed(lease, Abort("no"))])
    assert (first.accepted, second.accepted, len(followers(task))) == (True, False, 1)


def test_it_is_one_transaction(database, monkeypatch):
    """An error of the insertion is an error of the record."""
    task = enqueue(on_failure=REPORT)
    lease = claim_one()
    monkeypatch.setattr(type(engine_for(database)), "insert", lambda *_: (_ for _ in ()).throw(ConnectionError()))
    with pytest.raises(ConnectionError), transaction.atomic(using=database):
        taskqueue.fail_task(lease, Abort("no"))
    assert now_of(task).status == "RUNNING"


@pytest.mark.parametrize("planted", ['{"func_path": 7}', '{"func_path": "x", "args": 1, "has_id": true}', "{}"])
def test_a_call_that_cannot_be_stored_costs_itself_alone(database, planted, caplog):
    task, other = enqueue(on_failure=REPORT), enqueue(on_failure=REPORT)
    overwrite(task, database, on_failure=planted)
    leases = taskqueue.claim("worker", limit=2)
    receipts = taskqueue.finish([Failed(lease, Abort("no")) for lease in leases])
    assert [receipt.accepted for receipt in receipts] == [True, True]
    assert (len(followers(task)), len(followers(other))) == (0, 1)
    assert f"on_failure of task {task.pk} cannot be enqueued" in caplog.text


def test_a_retry_by_a_person_and_the_next_occurrence_take_it_over(database):
    task = enqueue(on_failure=REPORT, interval=60)
    taskqueue.complete_task(claim_one(), None)
    following = Task.objects.unfinished().get()
    assert following.on_failure == now_of(task).on_failure
    following.cancel()
    again = now_of(following).retry()
    fail(again)
    assert followers(again)[0].args == [str(again.pk), 3]


def test_the_framework_brings_it_along(database):
    result = tasks.noop.using(on_failure=REPORT).enqueue()
    assert Task.objects.get(pk=result.id).on_failure["func_path"] == "tests.tasks.add"


@pytest.mark.parametrize(
    ("then", "error", "says"),
    [
        (call(tasks.optional_nothing), InvalidCall, "optional_nothing"),
        (call(tasks.noop).using(unique_key="k"), InvalidCall, "leave unique_key and interval out"),
        (call(tasks.noop).using(interval=5), InvalidCall, "leave unique_key and interval out"),
        (call(print), UnregisteredTask, "not a registered task"),
    ],
)
def test_a_call_that_makes_no_sense_is_refused_when_the_task_is_enqueued(database, then, error, says):
    with pytest.raises(error, match=says):
        enqueue(on_failure=then)
    assert not Task.objects.exists()


@pytest.mark.parametrize("beside", [0, 2], ids=["alone", "with others"])
def test_it_is_stored_beside_calls_without_one(database, beside):
    calls = [{"func": tasks.noop, "on_failure": REPORT}, *[{"func": tasks.noop}] * beside]
    stored = [now_of(task).on_failure for task in Task.objects.enqueue_many(calls)]
    assert [each is None for each in stored] == [False, *[True] * beside]


@pytest.mark.parametrize("value", [[1], 3])
def test_the_database_stores_no_other_shape(database, value):
    task = new_task(**{name: getattr(enqueue(), name) for name in NEW_COLUMNS} | {"id": new_id(), "on_failure": value})
    with pytest.raises(IntegrityError, match="known shape"), transaction.atomic(using=database):
        insert([task], database)
