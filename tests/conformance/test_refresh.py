"""Our own in place of the three tests of Django's that change results in memory or ask the database in a coroutine."""

from __future__ import annotations

from asgiref.sync import async_to_sync

from django_tasks_retry import taskqueue
from django_tasks_retry.compat import TaskResultStatus, task_backends
from tests import tasks


def complete_the_next() -> None:
    [lease] = taskqueue.claim("worker")
    taskqueue.complete_task(lease, 42)


def test_a_result_learns_on_refresh_what_the_worker_recorded(database):
    result = tasks.add.enqueue(1, 2)
    complete_the_next()
    assert result.status == TaskResultStatus.READY
    result.refresh()
    assert (result.status, result.return_value, result.attempts) == (TaskResultStatus.SUCCESSFUL, 42, 1)


def test_a_result_learns_on_arefresh_what_the_worker_recorded(database):
    result = async_to_sync(tasks.add.aenqueue)(1, 2)
    complete_the_next()
    assert result.status == TaskResultStatus.READY
    async_to_sync(result.arefresh)()
    assert (result.status, result.return_value, result.attempts) == (TaskResultStatus.SUCCESSFUL, 42, 1)


def test_a_result_read_by_another_call_is_equal_to_the_refreshed_one(database):
    result = tasks.add.enqueue(1, 2)
    complete_the_next()
    result.refresh()
    assert tasks.add.get_result(result.id) == result
    assert async_to_sync(task_backends["default"].aget_result)(result.id) == result
