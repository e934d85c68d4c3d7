"""Those who enqueue and those who cancel, retry and reschedule, against each other."""

from __future__ import annotations

from datetime import timedelta

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Task, TaskEvent, TaskResult
from django_tasks_retry.rules.status import Status
from tests import tasks
from tests.model.invariants import violations
from tests.races.together import together

ROUNDS = 20
MANY = 200


def finished(count, **options):
    ids = [task.pk for task in Task.objects.enqueue_many([{"func": tasks.noop, **options} for _ in range(count)])]
    taskqueue.cancel(ids)
    return ids


def test_eight_enqueue_one_unique_key_and_get_one_task(committed):
    for n in range(ROUNDS):
        got = together(*[lambda n=n: Task.objects.enqueue(tasks.noop, unique_key=f"key-{n}")] * 8)
        assert len({task.pk for task in got}) == 1
        assert sum(task.already_enqueued for task in got) == 7
    assert Task.objects.using(committed).count() == ROUNDS


def test_two_enqueue_the_same_keys_in_opposite_order(committed):
    for n in range(5):
        calls = [{"func": tasks.noop, "unique_key": f"{n}-{key}"} for key in range(MANY)]
        one, other = together(
            lambda calls=calls: Task.objects.enqueue_many(calls),
            lambda calls=calls: Task.objects.enqueue_many(calls[::-1]),
        )
        assert [task.pk for task in one] == [task.pk for task in other[::-1]]
    assert Task.objects.using(committed).count() == 5 * MANY


def test_a_key_is_free_again_the_moment_its_task_is_cancelled(committed):
    """The one who enqueues gets the old task or a new one, never an error and never none."""
    for n in range(ROUNDS):
        old = Task.objects.enqueue(tasks.noop, unique_key=f"key-{n}")
        got, _ = together(
            lambda n=n: Task.objects.enqueue(tasks.noop, unique_key=f"key-{n}"),
            lambda old=old: taskqueue.cancel([old.pk]),
        )
        assert got.already_enqueued == (got.pk == old.pk)
    assert violations(committed) == []


def test_two_operators_cancel_the_same_tasks_in_opposite_order(committed):
    ids = [task.pk for task in Task.objects.enqueue_many([(tasks.noop,)] * MANY)]
    one, other = together(lambda: taskqueue.cancel(ids), lambda: taskqueue.cancel(ids[::-1]))
    assert sorted(one.done + other.done) == sorted(ids)
    assert one.skipped + other.skipped == MANY
    assert violations(committed) == []


def test_two_operators_retry_the_same_keyed_tasks_in_opposite_order(committed):
    ids = [finished(1, unique_key=f"key-{n}")[0] for n in range(MANY // 4)]
    one, other = together(lambda: taskqueue.retry(ids), lambda: taskqueue.retry(ids[::-1]))
    assert sorted(task.retry_of_id for task in one + other) == sorted(ids)
    assert violations(committed) == []


def test_two_operators_reschedule_and_cancel_the_same_tasks(committed):
    ids = [task.pk for task in Task.objects.enqueue_many([(tasks.noop,)] * MANY)]
    _, cancelled = together(
        lambda: taskqueue.reschedule(ids[::-1], eta=timedelta(hours=1)), lambda: taskqueue.cancel(ids)
    )
    assert sorted(cancelled.done) == sorted(ids)
    assert violations(committed) == []


def test_pruning_beside_a_retry_loses_neither_the_new_task_nor_half_an_old_one(committed, travel):
    ids = finished(MANY)
    travel(100)
    pruned, fresh = together(
        lambda: sum(taskqueue.prune(keep={Status.CANCELLED: 10.0}, batch=20)), lambda: taskqueue.retry(ids)
    )
    assert pruned == MANY
    assert Task.objects.using(committed).count() == len(fresh)
    assert TaskResult.objects.using(committed).count() == 0
    assert {event.task_id for event in TaskEvent.objects.using(committed)} == {task.pk for task in fresh}
    assert violations(committed) == []


def test_two_prunings_delete_each_task_once(committed, travel):
    finished(MANY)
    travel(100)
    together(*[lambda: list(taskqueue.prune(keep={Status.CANCELLED: 10.0}, batch=20))] * 2)
    assert Task.objects.using(committed).count() == TaskResult.objects.using(committed).count() == 0
