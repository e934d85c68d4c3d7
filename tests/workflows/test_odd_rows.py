"""Rows that no release writes, such as a retry of itself, cost themselves alone."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NoReturn
from uuid import UUID

import pytest
from django.db import connections

from django_tasks_retry import taskqueue
from django_tasks_retry.clock import now
from django_tasks_retry.display.explain import explain_waiting
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import Sweep
from django_tasks_retry.taskqueue.claim.limiter import begun_in
from django_tasks_retry.taskqueue.new_tasks import new_id
from django_tasks_retry.taskqueue.workflows.members import batch_key
from django_tasks_retry.taskqueue.workflows.steps import StepKind, insert_steps
from tests.admin.unguarded import overwrite
from tests.steps import now_of
from tests.workflows import tasks
from tests.workflows.scene import members, run_one


def give_up(*_: object) -> NoReturn:
    raise TimeoutError("it goes round for ever")


@pytest.fixture
def alarm() -> Iterator[None]:
    """Ends a loop without an end, of which some ask the database nothing."""
    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(10)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def stored(value: UUID, using: str) -> str:
    return str(value) if connections[using].vendor == "postgresql" else value.hex


def plant(task: Task, using: str, **columns: Any) -> None:
    overwrite(task, using, **{k: stored(v, using) if isinstance(v, UUID) else v for k, v in columns.items()})


@pytest.mark.plain_layout  # a dropped period has no count of its rows
@pytest.mark.usefixtures("alarm")
@pytest.mark.parametrize("length", [1, 2, 3])
def test_members_that_are_retries_of_each_other_in_a_circle_are_pruned(harness, length):
    batch, made = new_id(), [Task.objects.enqueue(tasks.double, [n]) for n in range(length)]
    innocent = Task.objects.enqueue(tasks.double, [9])
    for n, task in enumerate(made):
        plant(task, harness.using, batch=batch, retry_of_id=made[n - 1].pk)
    harness.run_due()
    assert now_of(innocent).status == "SUCCESS"
    harness.advance(days=400)
    assert sum(taskqueue.prune()) == length + 1


@pytest.mark.usefixtures("alarm")
def test_in_strict_order_batches_that_wait_for_each_other_hold_up_no_worker(harness):
    batches, made = [new_id(), new_id()], [Task.objects.enqueue(tasks.enter, [7, n]) for n in range(2)]
    for n, task in enumerate(made):
        plant(task, harness.using, batch=batches[n], waits_for=batch_key(batches[n - 1]), attempts=1)
    begun = begun_in(now_of(made[0]).lane, harness.using)
    assert begun is not None
    assert begun.pk in {task.pk for task in made}


GARBAGE = ["batch:nonsense", "batch:", "task:xyz", "signal:", "", "x" * 255, "batch:" + "0" * 32, "batch:\n:fail_fast"]


def test_a_task_that_waits_for_nonsense_is_named_once_and_the_others_are_woken(harness, caplog):
    odd = [Task.objects.enqueue(tasks.double, [1], eta=timedelta(days=1)) for _ in GARBAGE]
    for task, key in zip(odd, GARBAGE, strict=True):
        plant(task, harness.using, waits_for=key)
    waiting = Task.objects.enqueue(tasks.approval, ["go"])
    harness.run_due()
    taskqueue.signal("go")
    caplog.clear()
    sweep = Sweep()
    assert sweep.everything() == [waiting.pk]
    sweep.everything()
    assert [caplog.text.count(str(task.pk)) for task in odd] == [1] * len(odd)
    assert "cancel it" in caplog.text
    assert sorted(taskqueue.cancel([task.pk for task in odd]).done) == [task.pk for task in odd]


def test_a_long_name_of_a_signal_is_waited_for_like_any_other(harness, caplog):
    task = Task.objects.enqueue(tasks.double, [1], eta=timedelta(days=1))
    plant(task, harness.using, waits_for="signal:" + "x" * 248)
    assert Sweep().everything() == []
    assert caplog.text == ""


@pytest.mark.parametrize("key", GARBAGE)
def test_the_console_explains_a_task_that_waits_for_nonsense(harness, key):
    task = Task.objects.enqueue(tasks.double, [1], eta=timedelta(days=1))
    plant(task, harness.using, waits_for=key)
    assert explain_waiting(now_of(task), now(harness.using), harness.using)


@pytest.mark.parametrize("result", [5, "x", [1], {}, {"batch": 5}, {"batch": "x"}, {"batch": None}, None])
def test_an_odd_step_keeps_no_other_task_from_being_cancelled_with_its_members(harness, caplog, result):
    odd = Task.objects.enqueue(tasks.double, [1])
    insert_steps([(odd.pk, "odd", StepKind.BATCH, result)], harness.using)
    parent = Task.objects.enqueue(tasks.fan_out, [[1, 2]], priority=100)
    run_one(harness)
    assert sorted(taskqueue.cancel([odd.pk, parent.pk]).done) == [odd.pk, parent.pk]
    assert {task.status for task in members()} == {"CANCELLED"}
    assert f"step 'odd' of task {odd.pk} names no batch" in caplog.text
