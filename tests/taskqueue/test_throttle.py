"""Throttle: a key that is taken for a time, also after its task has succeeded."""

from __future__ import annotations

from datetime import timedelta

import pytest

from django_tasks_retry import taskqueue
from django_tasks_retry.errors import Abort, AlreadyEnqueued, InvalidCall
from django_tasks_retry.models import Task
from tests import tasks
from tests.steps import claim_one, enqueue, now_of

HOUR = timedelta(hours=1)


def throttled(**options) -> Task:
    return enqueue(unique_key="hook-7", unique_for=3600, **options)


def succeed() -> None:
    taskqueue.complete_task(claim_one(), "done")


def test_a_key_is_taken_after_its_task_has_succeeded_until_its_time_is_over(database, travel):
    first = throttled()
    assert first.unique_until == now_of(first).unique_until == first.created_at + HOUR
    succeed()
    again = throttled()
    assert (again.pk, again.already_enqueued, again.status) == (first.pk, True, "SUCCESS")
    travel(3601)
    assert throttled().pk != first.pk


def test_an_unfinished_holder_is_kept_as_without_a_throttle(database, travel):
    first = throttled()
    travel(7200)
    assert throttled().pk == first.pk
    claim_one()
    assert throttled().pk == first.pk


@pytest.mark.parametrize("mode", ["keep", "replace", "run_again"])
def test_every_mode_but_raise_returns_the_one_that_succeeded(database, mode):
    first = throttled()
    succeed()
    assert throttled(on_conflict=mode).pk == first.pk
    assert Task.objects.count() == 1


def test_raise_says_who_holds_the_key(database):
    first = throttled()
    succeed()
    with pytest.raises(AlreadyEnqueued) as caught:
        throttled(on_conflict="raise")
    assert caught.value.task.pk == first.pk


def test_the_newest_call_replaces_one_that_waits(database):
    first = throttled()
    second = throttled(on_conflict="replace")
    assert (now_of(first).status, second.pk != first.pk) == ("CANCELLED", True)


def test_one_that_failed_or_was_cancelled_frees_the_key(database):
    throttled()
    taskqueue.fail_task(claim_one(), Abort("no"))
    second = throttled()
    assert not second.already_enqueued
    now_of(second).cancel()
    assert not throttled().already_enqueued


def test_the_task_that_ran_once_more_holds_the_key_too(database):
    throttled(on_conflict="run_again")
    lease = claim_one()
    second = throttled(on_conflict="run_again")
    taskqueue.complete_task(lease, None)
    succeed()
    assert throttled().pk == second.pk


def test_a_call_without_a_throttle_sees_unfinished_tasks_only(database):
    first = throttled()
    assert enqueue(unique_key="hook-7").pk == first.pk
    succeed()
    assert enqueue(unique_key="hook-7").pk != first.pk


def test_keys_of_other_queues_and_many_at_once(database):
    options = {"unique_key": "hook-7", "unique_for": HOUR}
    calls = [taskqueue.EnqueueOptions(tasks.noop, queue=queue, **options) for queue in ("default", "emails", "default")]
    first, other, same = taskqueue.enqueue_many(calls)
    assert (first.pk == same.pk, first.pk == other.pk) == (True, False)
    succeed()
    assert [task.pk for task in taskqueue.enqueue_many(calls)] == [first.pk, other.pk, first.pk]


def test_the_framework_brings_it_along(database):
    result = tasks.noop.using(unique_key="hook-7", unique_for=60).enqueue()
    task = Task.objects.get(pk=result.id)
    assert task.unique_until - task.created_at == timedelta(seconds=60)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"unique_for": 60}, "unique_for= says what happens .* Give unique_key=, too"),
        ({"unique_for": 0, "unique_key": "k"}, "more than zero"),
        ({"unique_for": "1h", "unique_key": "k"}, "give seconds"),
        ({"unique_for": timedelta(days=15), "unique_key": "k"}, "or raise KEEP_SUCCESS"),
        ({"unique_for": 60, "unique_key": "k" * 200}, "room for a second key"),
    ],
)
def test_what_makes_no_sense_is_refused_and_says_what_to_do(database, options, says):
    with pytest.raises(InvalidCall, match=says):
        enqueue(**options)
