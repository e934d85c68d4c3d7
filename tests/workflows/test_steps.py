"""A task remembers: what was done once is not done again, and a worker that lost its lease remembers nothing."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import IntegrityError, connections, transaction
from django.test.utils import CaptureQueriesContext

from django_tasks_retry import taskqueue
from django_tasks_retry.errors import InvalidCall, InvalidPayload, LeaseLost
from django_tasks_retry.models import Step, Task
from django_tasks_retry.taskqueue.renewal import open_transactions
from django_tasks_retry.taskqueue.workflows.steps import StepKind, StepStore
from tests.steps import begin, claim_one, kinds, now_of
from tests.workflows import tasks


def test_a_step_runs_once_however_often_its_task_does(harness):
    task = Task.objects.enqueue(tasks.steps, ["a", "b", "c"], {"fail_at": "b"})
    harness.run_until_idle()
    assert tasks.calls == ["a", "b", "c"]
    assert now_of(task).outcome.result == ["a", "b", "c"]
    assert list(Step.objects.values_list("name", "kind", "attempt")) == [
        ("a", "step", 1),
        ("b", "step", 1),
        ("c", "step", 2),
    ]


def test_an_atomic_step_writes_and_remembers_in_one_commit(harness):
    task = Task.objects.enqueue(tasks.steps, ["a", "b"], {"fail_at": "a", "atomic": True})
    harness.run_until_idle()
    assert now_of(task).outcome.result == list(Group.objects.order_by("pk").values_list("pk", flat=True))
    assert Group.objects.count() == 2


def test_a_result_reads_the_same_the_first_time_as_the_second(database):
    _, lease = begin()
    first = StepStore(lease).save("pair", StepKind.STEP, (1, {"a": (2,)}))
    assert first == StepStore(lease).result("pair") == [1, {"a": [2]}]


@pytest.mark.needs("kept_plans")
def test_a_step_takes_one_statement_to_look_and_one_to_remember_whose_plan_is_kept(database):
    _, lease = begin()
    with CaptureQueriesContext(connections[database]) as asked:
        steps = StepStore(lease, open_transactions("default"))
        for name in "ab":
            steps.enter(name, StepKind.STEP)
            steps.save(name, StepKind.STEP, 1)
    sent = [query["sql"] for query in asked.captured_queries]
    assert sum("-- Steps" in sql for sql in sent) == 1
    if connections[database].vendor == "postgresql":
        assert len(sent) == 3
        assert sum("FROM dtr_remember_" in sql for sql in sent) == 2


def test_nothing_is_remembered_without_the_lease(database, travel):
    task, lease = begin()
    travel(61)
    with pytest.raises(LeaseLost, match="EXPIRED"):
        StepStore(lease).save("late", StepKind.STEP, 1)
    taskqueue.recover()
    claim_one("another")
    with pytest.raises(LeaseLost, match="RECLAIMED"):
        StepStore(lease).save("late", StepKind.STEP, 1)
    now_of(task).cancel()
    with pytest.raises(LeaseLost, match="CANCELLED"):
        StepStore(lease).save("late", StepKind.STEP, 1)
    assert not Step.objects.exists()


def insert(lease: Any, **changes: Any) -> Step:
    given = {"task_id": lease.id, "name": "x", "kind": "step", "attempt": lease.attempts, "actor": lease.locked_by}
    return Step.objects.create(**given | {"ts": lease.started_at} | changes)


@pytest.mark.parametrize("changes", [{"actor": "somebody"}, {"attempt": 2}, {"attempt": 0}])
def test_the_database_refuses_a_step_of_anybody_else(database, changes):
    _, lease = begin()
    with pytest.raises(IntegrityError, match="live lease"), transaction.atomic(database):
        insert(lease, **changes)


def test_the_database_refuses_a_step_after_the_lease(database, travel):
    _, lease = begin()
    travel(61)
    with pytest.raises(IntegrityError, match="live lease"), transaction.atomic(database):
        insert(lease)
    travel(-61)
    taskqueue.complete_task(lease)
    with pytest.raises(IntegrityError, match="live lease"), transaction.atomic(database):
        insert(lease)


def test_the_database_lets_nobody_rewrite_what_was_remembered(database):
    _, lease = begin()
    step = insert(lease)
    for change in (lambda: Step.objects.update(result=2), Step.objects.all().delete, lambda: insert(lease, pk=step.pk)):
        with pytest.raises(IntegrityError), transaction.atomic(database):
            change()
    with pytest.raises(IntegrityError), transaction.atomic(database):
        insert(lease)
    assert list(Step.objects.values_list("pk", "result")) == [(step.pk, None)]


def test_only_the_release_says_what_a_task_waits_for(database):
    task, lease = begin()
    with pytest.raises(IntegrityError), transaction.atomic(database):
        Task.objects.filter(pk=task.pk).update(waits_for="signal:x")
    taskqueue.release_task(lease, "test")
    with pytest.raises(IntegrityError), transaction.atomic(database):
        Task.objects.filter(pk=task.pk).update(waits_for="signal:x")


def test_names_come_once_in_an_attempt(harness):
    task = Task.objects.enqueue(tasks.says_twice)
    harness.run_due()
    assert "comes twice in one attempt" in now_of(task).last_error["message"]


def test_a_name_keeps_its_kind(database):
    _, lease = begin()
    StepStore(lease).save("x", StepKind.SLEEP, "2026-01-01")
    with pytest.raises(InvalidCall, match="recorded as a sleep and is a step"):
        StepStore(lease, transactions=9).enter("x", StepKind.STEP)


@pytest.mark.parametrize("name", ["", "x" * 201, None, 7])
def test_a_name_is_a_short_text(database, name):
    _, lease = begin()
    with pytest.raises(InvalidCall, match="1 to 200 characters"):
        StepStore(lease).enter(name, StepKind.STEP)


def test_results_are_bounded_and_canonical(database, configure):
    configure(MAX_RESULT_SIZE=1024)
    _, lease = begin()
    for result in ("x" * 1024, object(), float("nan")):
        with pytest.raises(InvalidPayload, match="The result of step 'x'"):
            StepStore(lease).save("x", StepKind.STEP, result)


@pytest.mark.parametrize("func", [tasks.unstorable, tasks.aunstorable])
def test_a_step_whose_result_cannot_be_kept_fails_at_once_and_repeats_no_effect(harness, func):
    task = Task.objects.enqueue(func)
    harness.run_until_idle()
    assert tasks.calls == ["paid"]
    assert now_of(task).last_error["code"] == "RESULT_NOT_SERIALIZABLE"
    assert "The result of step 'pay'" in now_of(task).last_error["message"]


def test_a_step_in_a_transaction_is_refused(harness):
    task = Task.objects.enqueue(tasks.remembers_in_a_transaction)
    harness.run_due()
    assert "stands in a transaction" in now_of(task).last_error["message"]
    assert tasks.calls == []


def test_a_task_sleeps_without_a_worker_and_without_spending_its_budget(harness):
    task = Task.objects.enqueue(tasks.nap, max_attempts=1)
    harness.run_due()
    asleep = now_of(task)
    assert (asleep.status, asleep.refunds, asleep.waits_for) == ("PENDING", 1, None)
    assert 3599 < (asleep.eta - asleep.updated_at).total_seconds() <= 3600
    harness.advance(seconds=3599)
    assert harness.run_due() == []
    harness.advance(seconds=1)
    harness.run_due()
    assert now_of(task).outcome.result == "rested"
    assert tasks.calls == ["before", "before", "after"]
    assert kinds(task) == ["task.running", "task.released", "task.running", "task.completed"]


def test_who_is_woken_early_goes_on_sleeping(harness):
    task = Task.objects.enqueue(tasks.nap)
    harness.run_due()
    until = now_of(task).eta
    taskqueue.reschedule([task.pk])
    harness.run_due()
    assert now_of(task).status == "PENDING"
    assert abs((now_of(task).eta - until).total_seconds()) < 1


def test_a_suspension_is_no_exception_that_a_task_could_swallow(harness):
    task = Task.objects.enqueue(tasks.swallows)
    harness.run_until_idle()
    assert now_of(task).outcome.result == "slept"


def test_coroutines_remember_sleep_and_gather(harness):
    task = Task.objects.enqueue(tasks.asteps)
    harness.run_until_idle()
    assert now_of(task).outcome.result == ["first", "second", [2, 4], 10]
    assert tasks.calls == ["first", "second", 1, 2, 5]


@pytest.mark.plain_layout  # a dropped period has no count of its rows
def test_steps_are_pruned_with_their_task(harness):
    Task.objects.enqueue(tasks.steps, ["a"])
    harness.run_due()
    harness.advance(days=400)
    assert list(taskqueue.prune()) == [1]
    assert not Step.objects.exists()
