"""Earlier attempts: looked up only for who wants to know, and no fault of the task where that goes wrong."""

from __future__ import annotations

import pytest

from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import claim, recover
from tests.proxy import Cut

from . import tasks
from .harness import story, wait_until_finished

LOOKUP = b'FROM "django_tasks_retry_taskevent"'


def lost_once(task: Task) -> Task:
    claim("gone/1", limit=1)
    recover(dead="gone/1", actor="gone")
    return task


@pytest.mark.parametrize("reply", [False, True], ids=["asking", "answering"])
def test_an_attempt_whose_history_cannot_be_read_is_given_back_not_failed(start_behind, proxy, reply):
    task = lost_once(Task.objects.enqueue(tasks.describe))
    cut = proxy.arm(Cut(LOOKUP, reply=reply))
    start_behind()
    task = wait_until_finished(task)
    assert cut.done.is_set()
    assert story(task) == ["running", "lease_lost", "running", "released", "running", "completed"]
    assert (task.attempts, task.refunds, task.outcome.result[1]) == (3, 1, 3)


def test_nothing_is_looked_up_where_nobody_wants_to_know(start_behind, proxy):
    task = lost_once(Task.objects.enqueue(tasks.canary))
    start_behind()
    assert wait_until_finished(task).attempts == 2
    assert not any(LOOKUP in statement for statement in proxy.statements)
