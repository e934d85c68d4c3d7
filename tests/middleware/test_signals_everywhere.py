"""`task_enqueued` is sent for every new task, by whichever door it came."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from django_tasks_retry import bridge
from django_tasks_retry.backend import RetryBackend
from django_tasks_retry.compat import TaskResultStatus, framework_logger, task_enqueued
from django_tasks_retry.models import Schedule, Task
from django_tasks_retry.taskqueue import retry, run_schedule_now, tick
from django_tasks_retry.worker.supervisor.own_processes import SignalProcess, send_all
from tests import tasks as plain
from tests.middleware.samples import write_atomically


@pytest.fixture
def heard() -> Iterator[list[tuple[object, str, TaskResultStatus]]]:
    """(sender, id, status) of each task that was told."""
    told: list[tuple[object, str, TaskResultStatus]] = []

    def receive(sender, task_result, **_):
        told.append((sender, task_result.id, task_result.status))

    task_enqueued.connect(receive)
    yield told
    task_enqueued.disconnect(receive)


def ready(*tasks: Task) -> list[tuple[object, str, TaskResultStatus]]:
    return [(RetryBackend, str(task.pk), TaskResultStatus.READY) for task in tasks]


def test_the_manager_tells_of_one_and_of_many(database, heard):
    one = Task.objects.enqueue(plain.add, [1, 2])
    many = Task.objects.enqueue_many([(plain.add, [1, 2]), (plain.noop, [])])
    assert heard == ready(one, *many)


def test_a_task_that_was_there_before_is_not_told_again(database, heard):
    first = Task.objects.enqueue(plain.noop, unique_key="k")
    assert Task.objects.enqueue(plain.noop, unique_key="k").already_enqueued
    assert heard == ready(first)


def test_retries_by_a_person_are_told(database, tasks, heard):
    task = Task.objects.enqueue(plain.add, [1, 2])
    tasks.run_due()
    heard.clear()
    fresh = retry([task.pk], by="me")
    assert heard == ready(*fresh)
    assert len(fresh) == 1


def test_the_next_occurrence_is_told(database, tasks, heard):
    first = Task.objects.enqueue(plain.noop, interval=60)
    tasks.run_due()
    following = Task.objects.exclude(pk=first.pk).get()
    assert heard == ready(first, following)


def test_an_atomic_task_tells_its_next_occurrence_too(database, tasks, heard):
    first = Task.objects.enqueue(write_atomically, interval=60)
    tasks.run_due()
    following = Task.objects.exclude(pk=first.pk).get()
    assert heard == ready(first, following)


def test_a_run_of_a_schedule_beside_its_plan_is_told(database, heard):
    Schedule.objects.create(name="s", task=plain.noop, every=60)
    assert heard == []
    task = run_schedule_now("s", by="me")
    assert heard == ready(task)


def test_what_a_tick_enqueued_is_told_by_the_process_for_signals(database, heard, travel):
    """The supervisor itself runs no receiver."""
    Schedule.objects.create(name="s", task=plain.noop, every=60)
    travel(61)
    ticked = tick()
    assert heard == []
    process = SignalProcess("default", lambda: None)
    process.send_enqueued(ticked.ids)
    assert process.waiting == list(ticked.ids)
    send_all(process.waiting, "default")
    assert heard == ready(Task.objects.get())


def test_receivers_that_fail_take_nothing_back(database, tasks):
    def fail(**_):
        raise ValueError("receiver")

    task_enqueued.connect(fail)
    try:
        task = Task.objects.enqueue(plain.add, [1, 2])
        tasks.run_due()
        [again] = retry([task.pk], by="me")
    finally:
        task_enqueued.disconnect(fail)
    assert Task.objects.filter(pk__in=[task.pk, again.pk]).count() == 2


def test_where_nobody_hears_no_result_is_made(database, caplog, monkeypatch):
    made = []
    monkeypatch.setattr(bridge, "as_result", lambda *given: made.append(given))
    with caplog.at_level(logging.INFO, framework_logger.name):
        Task.objects.enqueue(plain.add, [1, 2])
    assert made == []
