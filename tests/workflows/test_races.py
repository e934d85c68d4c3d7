"""Two at one instant: the last two members of a batch, a task and the signal it waits for."""

from __future__ import annotations

import os
from functools import partial

import pytest

from django_tasks_retry import call, signal, taskqueue
from django_tasks_retry.models import Task, TaskEvent
from django_tasks_retry.taskqueue import Completed, Released
from django_tasks_retry.taskqueue.workflows.members import signal_key
from tests.model.invariants import violations
from tests.races.together import beside, together
from tests.workflows import tasks

ROUNDS = int(os.environ.get("ROUNDS", "6"))
"""`ROUNDS=1000 pytest tests/workflows/test_races.py` for a long night."""


@pytest.mark.fault("last_members_end_together")
def test_the_last_two_members_wake_once(committed):
    for _ in range(ROUNDS):
        Task.objects.enqueue_many([call(tasks.double, n) for n in (1, 2)], then=call(tasks.publish, "x"))
        waiting = Task.objects.get(waits_for__isnull=False)
        first, second = taskqueue.claim("w", limit=2)
        together(partial(taskqueue.finish, [Completed(first, 1)]), partial(taskqueue.finish, [Completed(second, 2)]))
        wakes = TaskEvent.objects.filter(task_id=waiting.pk, kind="task.rescheduled")
        assert (wakes.count(), Task.objects.get(pk=waiting.pk).waits_for) == (1, None)
        [lease] = taskqueue.claim("w")
        assert lease.id == waiting.pk
        taskqueue.complete_task(lease)
    assert violations(committed) == []


@pytest.mark.fault("signal_as_a_wait_begins")
def test_a_signal_and_who_waits_for_it_never_miss_each_other(committed):
    for number in range(ROUNDS):
        name = f"go {number}"
        task = Task.objects.enqueue(tasks.approval, [name])
        [lease] = taskqueue.claim("w")
        suspend = Released(lease, "waits", 9999, waits_for=signal_key(name))
        together(partial(taskqueue.finish, [suspend]), partial(signal, name))
        [again] = taskqueue.claim("w")
        assert again.id == task.pk
        taskqueue.complete_task(again)
    assert violations(committed) == []


@pytest.mark.fault("last_members_end_together")
@pytest.mark.parametrize("on", ["postgresql"], indirect=True)
def test_of_two_last_members_the_later_to_commit_wakes(committed):
    """As an atomic task does, the first completes in a transaction that is still open when the second has ended."""
    Task.objects.enqueue_many([call(tasks.double, n) for n in (1, 2)], then=call(tasks.publish, "x"))
    waiting = Task.objects.get(waits_for__isnull=False)
    first, second = taskqueue.claim("w", limit=2)
    beside(committed, partial(taskqueue.complete_task, first), partial(taskqueue.complete_task, second))
    assert Task.objects.get(pk=waiting.pk).waits_for is None


def test_a_signal_that_comes_while_a_task_is_about_to_wait_is_not_missed(committed):
    task = Task.objects.enqueue(tasks.approval, ["go"])
    [lease] = taskqueue.claim("w")
    signal("go")
    taskqueue.finish([Released(lease, "waits", 9999, waits_for=signal_key("go"))])
    assert Task.objects.get(pk=task.pk).waits_for is None
