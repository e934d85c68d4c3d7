from __future__ import annotations

import pytest

from django_tasks_retry.models import Task
from tests.backend import samples


@pytest.mark.parametrize("task", [samples.enqueue_another, samples.enqueue_another_async])
def test_a_task_enqueued_inside_a_task_inherits_its_run(database, tasks, task):
    outer = Task.objects.get(pk=task.enqueue().id)
    [first, *_] = tasks.run_due()
    inner = Task.objects.get(pk=first.return_value)
    assert inner.run_id == outer.run_id == outer.pk
    assert inner.parent_id == outer.pk


def test_a_task_enqueued_after_a_task_begins_a_run_of_its_own(database, tasks):
    samples.enqueue_another.enqueue()
    tasks.run_due()
    later = Task.objects.get(pk=samples.enqueue_another.enqueue().id)
    assert (later.run_id, later.parent_id) == (later.pk, None)
