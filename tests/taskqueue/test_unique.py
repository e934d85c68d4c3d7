"""unique_key: at most one unfinished task per queue and key, and the caller is told."""

from __future__ import annotations

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_tasks_retry import taskqueue
from django_tasks_retry.errors import Abort, IllegalMove
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import EnqueueOptions
from tests import tasks
from tests.steps import claim_one, enqueue, now_of


def test_the_second_gets_the_first_one_and_is_told(database):
    first = enqueue(tasks.add, 1, 2, unique_key="k")
    second = enqueue(tasks.add, 3, 4, unique_key="k")
    assert (first.already_enqueued, second.already_enqueued) == (False, True)
    assert (second.pk, second.args) == (first.pk, [1, 2])
    assert Task.objects.count() == 1


def test_a_running_task_still_holds_its_key(database):
    first = enqueue(unique_key="k")
    claim_one()
    assert enqueue(unique_key="k").pk == first.pk


@pytest.mark.parametrize(
    "finish",
    [
        lambda task: taskqueue.complete_task(claim_one()),
        lambda task: taskqueue.fail_task(claim_one(), Abort("x")),
        lambda task: task.cancel(),
    ],
)
def test_a_finished_task_gives_its_key_back(database, finish):
    first = enqueue(unique_key="k")
    finish(first)
    second = enqueue(unique_key="k")
    assert not second.already_enqueued
    assert second.pk != first.pk


def test_a_task_that_waits_for_its_retry_holds_its_key(database):
    first = enqueue(unique_key="k")
    taskqueue.fail_task(claim_one(), ValueError())
    assert enqueue(unique_key="k").pk == first.pk


def test_keys_are_apart_by_queue_and_no_key_is_no_key(database):
    made = [enqueue(unique_key="k"), enqueue(unique_key="k", queue="bulk"), enqueue(), enqueue()]
    assert len({task.pk for task in made}) == 4


def test_within_one_batch_the_first_wins_and_order_is_kept(database):
    made = Task.objects.enqueue_many(
        EnqueueOptions(tasks.noop, [n], unique_key=key) for n, key in enumerate(["a", "b", "a", None, "b", "c", None])
    )
    assert [task.args[0] for task in made] == [0, 1, 0, 3, 1, 5, 6]
    assert [task.already_enqueued for task in made] == [False, False, True, False, True, False, False]
    assert Task.objects.count() == 5


def test_across_the_chunks_of_one_large_batch(database):
    made = Task.objects.enqueue_many(EnqueueOptions(tasks.noop, [n], unique_key=str(n % 900)) for n in range(2700))
    assert Task.objects.count() == 900
    assert [task.args[0] for task in made] == [n % 900 for n in range(2700)]


def test_keys_cost_no_statement_each(database):
    with CaptureQueriesContext(connections[database]) as captured:
        Task.objects.enqueue_many(EnqueueOptions(tasks.noop, unique_key=str(n)) for n in range(1000))
        Task.objects.enqueue_many(EnqueueOptions(tasks.noop, unique_key=str(n)) for n in range(1000))
    assert len(captured) < 60


def test_moving_to_a_queue_where_the_key_is_taken_is_refused_as_a_whole(database):
    holder, mover, other = enqueue(unique_key="k"), enqueue(unique_key="k", queue="bulk"), enqueue(queue="bulk")
    with pytest.raises(IllegalMove, match="Queue 'default' holds an unfinished task with the same unique key"):
        taskqueue.reschedule([mover.pk, other.pk], queue="default")
    assert [now_of(task).queue for task in (holder, mover, other)] == ["default", "bulk", "bulk"]
    assert not mover.events.exists()


def test_retrying_while_the_key_is_held_is_refused(database):
    first = enqueue(unique_key="k")
    first.cancel()
    holder = enqueue(unique_key="k")
    with pytest.raises(IllegalMove, match="holds the unique key 'k'"):
        first.retry()
    assert taskqueue.retry([first.pk]) == []
    assert Task.objects.unfinished().get() == holder


def test_a_retry_takes_the_key_up_again(database):
    first = enqueue(unique_key="k")
    first.cancel()
    again = first.retry()
    assert again.unique_key == "k"
    assert enqueue(unique_key="k").pk == again.pk


def test_a_repeating_task_hands_its_key_on(database):
    first = enqueue(unique_key="k", interval=60)
    taskqueue.complete_task(claim_one())
    following = Task.objects.unfinished().get()
    assert (following.unique_key, following.pk != first.pk) == ("k", True)
    assert enqueue(unique_key="k").pk == following.pk
