"""Acting on many: tasks that cannot be done again are left out, and keep no other from it."""

import json
from datetime import timedelta

import pytest

from django_tasks_retry import clock, taskqueue
from django_tasks_retry.models import Task
from django_tasks_retry.selection import actions
from tests import tasks
from tests.admin.unguarded import overwrite


@pytest.fixture
def ended(database) -> list[Task]:
    """Three cancelled tasks, the second of which cannot be read."""
    stored = Task.objects.enqueue_many([(tasks.noop,)] * 3)
    taskqueue.cancel([task.pk for task in stored])
    overwrite(stored[1], database, backoff=json.dumps({"x": 1}))
    return stored


def retries_of(ended: list[Task], **options) -> list[Task]:
    done = actions.retry([task.pk for task in ended], backend="default", **options)
    assert set(done) == {ended[0].pk, ended[2].pk}
    return [Task.objects.get(retry_of=ended[place]) for place in (0, 2)]


def test_a_retry_leaves_out_a_task_that_cannot_be_read(ended):
    assert {task.status for task in retries_of(ended)} == {"PENDING"}


def test_a_retry_that_is_spread_leaves_out_a_task_that_cannot_be_read(ended, database):
    start = clock.now(database) + timedelta(hours=1)
    first, third = retries_of(ended, eta=start, step=timedelta(minutes=10))
    assert third.eta - first.eta == timedelta(minutes=20)
