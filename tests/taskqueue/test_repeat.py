"""Repeating tasks: no drift, no storm, and a series that ends visibly."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from django_tasks_retry import taskqueue
from django_tasks_retry.errors import Abort
from django_tasks_retry.models import Task
from tests import tasks
from tests.steps import begin, claim_one, enqueue, now_of

HOUR = 3600


def pending():
    return Task.objects.pending().get()


def complete(**options):
    return taskqueue.complete_task(claim_one(**options))


@pytest.mark.fault("drifting_occurrences")
def test_five_occurrences_without_drift_though_attempts_fail_and_start_late(database, travel):
    first = enqueue(interval=HOUR)
    etas = [first.eta]
    for late in (0, 17, 600, 1.5):
        travel(late)
        taskqueue.fail_task(claim_one(), ValueError("boom"))
        travel(90)
        complete(lease=30)
        following = pending()
        etas.append(following.eta)
        travel((following.eta - Task.objects.successful().latest("finished_at").finished_at).total_seconds() + 0.1)
    assert [eta - etas[0] for eta in etas] == [timedelta(seconds=n * HOUR) for n in range(5)]
    assert Task.objects.successful().count() == 4


def test_the_next_occurrence_is_the_same_call_in_the_same_run(database):
    first = enqueue(
        tasks.add, 1, kwargs={"b": 2}, queue="bulk", priority=4, max_attempts=2, backoff=[9], timeout=8, interval=HOUR,
        unique_key="hourly", metadata={"x": 1},
    )  # fmt: skip
    complete()
    following = pending()
    same = ("func_path", "args", "kwargs", "queue", "priority", "backend", "max_attempts", "backoff", "timeout",
            "interval", "unique_key", "metadata", "run_id")  # fmt: skip
    for name in same:
        assert getattr(following, name) == getattr(first, name), name
    assert (following.attempts, following.started_at, following.retry_of_id) == (0, None, None)
    assert following.slot == following.eta == first.eta + timedelta(hours=1)


def test_a_late_run_skips_to_the_future(database, travel):
    first = enqueue(interval=HOUR)
    travel(10 * HOUR + 60)
    complete()
    assert pending().eta == first.eta + timedelta(hours=11)
    assert Task.objects.count() == 2


def test_a_series_that_begins_in_the_past_keeps_its_beat(database):
    begin_at = timezone.now().replace(microsecond=0) - timedelta(days=3, minutes=20)
    enqueue(interval=HOUR, eta=begin_at)
    complete()
    following = pending()
    assert (following.eta - begin_at) % timedelta(hours=1) == timedelta(0)
    assert following.eta > timezone.now()


def test_a_snoozed_or_hastened_occurrence_does_not_shift_the_series(database):
    first = enqueue(interval=HOUR, eta=timedelta(minutes=30))
    taskqueue.reschedule([first.pk])
    taskqueue.release_task(claim_one(), "shutdown")
    complete()
    assert pending().eta == first.eta + timedelta(hours=1)


ENDINGS = {
    "failed": lambda task: taskqueue.fail_task(claim_one(), Abort("broken")),
    "cancelled": lambda task: task.cancel(by="tests"),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_failed_or_cancelled_occurrence_ends_the_series(database, travel, ending):
    ENDINGS[ending](enqueue(interval=HOUR))
    travel(10 * HOUR)
    assert Task.objects.count() == 1
    assert taskqueue.claim("worker") == []


@pytest.mark.parametrize("ending", ENDINGS)
def test_retrying_the_last_occurrence_resumes_the_series_in_step(database, travel, ending):
    last = enqueue(interval=HOUR)
    ENDINGS[ending](last)
    travel(5 * HOUR + 60)
    again = now_of(last).retry(by="tests")
    assert (again.interval, again.retry_of_id, again.run_id) == (HOUR, last.pk, last.run_id)
    assert again.eta <= again.created_at
    complete()
    assert pending().eta == last.eta + timedelta(hours=6)


@pytest.mark.fault("series_retried_twice")
def test_a_retry_beside_a_next_occurrence_runs_once(database, travel):
    first = enqueue(interval=HOUR)
    complete()
    again = now_of(now_of(first).retry(by="tests"))
    assert (again.interval, again.slot, again.retry_of_id) == (0, None, first.pk)
    complete()
    assert [task.interval for task in Task.objects.pending()] == [HOUR]


@pytest.mark.fault("series_retried_twice")
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_second_retry_does_not_double_the_series(database, ending):
    last = enqueue(interval=HOUR)
    ENDINGS[ending](last)
    again = [now_of(last).retry(by="tests").interval for _ in range(3)]
    assert again == [HOUR, 0, 0]
    assert now_of(last).retries.count() == 3


@pytest.mark.fault("series_retried_twice")
def test_the_series_goes_on_from_the_retry_that_carries_it(database):
    last = enqueue(interval=HOUR)
    last.cancel()
    carrier = now_of(last).retry()
    carrier.cancel()
    assert now_of(carrier).retry().interval == HOUR
    assert now_of(last).retry().interval == 0


@pytest.mark.fault("series_retried_twice")
def test_of_many_that_are_retried_at_once_each_carries_its_own_series(database):
    made = Task.objects.enqueue_many({"func": tasks.noop, "interval": n * 60} for n in range(4))
    taskqueue.cancel(task.pk for task in made)
    made[2].retry()
    fresh = taskqueue.retry([task.pk for task in made])
    assert sorted(task.interval for task in fresh) == [0, 0, 60, 180]


def test_a_lost_lease_neither_ends_nor_doubles_the_series(database, travel):
    first, lease = begin(interval=HOUR)
    travel(61)
    taskqueue.recover()
    complete()
    assert pending().eta == first.eta + timedelta(hours=1)
    assert not taskqueue.finish([taskqueue.Completed(lease)])[0].accepted
    assert Task.objects.count() == 2


def test_the_next_occurrence_belongs_to_the_transaction_of_the_completion(database):
    _, lease = begin(interval=HOUR)
    assert Task.objects.count() == 1
    taskqueue.complete_task(lease)
    assert Task.objects.count() == 2


def test_many_series_in_one_report(database):
    made = Task.objects.enqueue_many({"func": tasks.noop, "args": [n], "interval": n % 3 * 60} for n in range(30))
    taskqueue.finish([taskqueue.Completed(lease) for lease in taskqueue.claim("worker", limit=30)])
    assert sorted(task.args[0] for task in Task.objects.pending()) == [n for n in range(30) if n % 3]
    for task in Task.objects.pending():
        assert task.eta == made[task.args[0]].eta + timedelta(seconds=task.interval)
