from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from asgiref.sync import async_to_sync
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone

from django_tasks_retry import taskqueue
from django_tasks_retry.backend import RetryBackend
from django_tasks_retry.compat import (
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_backends,
    task_enqueued,
)
from django_tasks_retry.errors import LeaseLost, TaskCancelled
from django_tasks_retry.models import Task
from tests import tasks as plain
from tests.backend import samples

OURS = "django_tasks_retry.backend.RetryBackend"


def test_everything_is_supported():
    backend = task_backends["default"]
    assert isinstance(backend, RetryBackend)
    assert backend.supports_defer
    assert backend.supports_async_task
    assert backend.supports_get_result
    assert backend.supports_priority


def test_what_enqueue_returns_equals_what_is_read_back(database):
    later = timezone.now() + timedelta(hours=1)
    for task in (plain.noop, plain.noop.using(priority=7, queue_name="emails", run_after=later)):
        result = task.enqueue(1, [2, {"three": 4.5}], five=None)
        assert task.get_result(result.id) == result
        assert async_to_sync(task.aget_result)(result.id) == result
        assert result.task == task


def test_a_delay_counts_from_the_enqueue_by_the_queues_clock(database, travel):
    in_an_hour = plain.noop.using(run_after=timedelta(hours=1))
    travel(86_400)
    result = in_an_hour.enqueue()
    row = Task.objects.get(pk=result.id)
    assert row.eta - row.created_at == timedelta(hours=1)
    assert result.task.run_after == row.eta
    assert plain.noop.get_result(result.id) == result


def test_a_negative_delay_is_refused():
    with pytest.raises(InvalidTask, match="cannot run before it is enqueued"):
        plain.noop.using(run_after=timedelta(seconds=-1))


def test_a_delay_is_validated_like_everything_else():
    with pytest.raises(InvalidTask, match="Queue 'nowhere'"):
        plain.noop.using(run_after=timedelta(hours=1), queue_name="nowhere")


def test_a_delay_becomes_an_instant_for_another_backend(settings):
    name = plain.noop.__class__.__mro__[1].__module__.partition(".base")[0]
    settings.TASKS = settings.TASKS | {"dummy": {"BACKEND": f"{name}.backends.dummy.DummyBackend"}}
    task = plain.noop.using(run_after=timedelta(hours=1), backend="dummy")
    assert isinstance(task.run_after, datetime)


def test_an_argument_that_is_not_json_is_named(database):
    with pytest.raises(TypeError, match=r"Unsupported type: args\[1\] is a datetime"):
        plain.noop.enqueue(1, timezone.now())
    assert not Task.objects.exists()


def test_what_django_normalises_is_accepted(database):
    result = plain.noop.enqueue(b"text", (1, 2), range(3))
    assert result.args == ["text", [1, 2], [0, 1, 2]]


def test_a_failing_receiver_does_not_undo_the_enqueue(database):
    def fail(**_):
        raise RuntimeError("receiver")

    task_enqueued.connect(fail)
    try:
        result = plain.noop.enqueue()
    finally:
        task_enqueued.disconnect(fail)
    assert Task.objects.filter(pk=result.id).exists()


@pytest.mark.parametrize("result_id", ["123", "", 7, None, "6005d030-df92-4f85-0884-54c18bd35dcf"])
def test_an_unknown_id_has_no_result(database, result_id):
    with pytest.raises(TaskResultDoesNotExist):
        task_backends["default"].get_result(result_id)


def test_a_result_belongs_to_the_backend_that_enqueued_it(database, settings):
    settings.TASKS = settings.TASKS | {"other": {"BACKEND": OURS}}
    result = plain.noop.enqueue()
    with pytest.raises(TaskResultDoesNotExist):
        task_backends["other"].get_result(result.id)


def test_a_result_outlives_its_queue(database, settings):
    result = plain.noop.using(queue_name="emails").enqueue()
    settings.TASKS = {"default": {"BACKEND": OURS, "QUEUES": ["default"]}}
    assert task_backends["default"].get_result(result.id).task.queue_name == "emails"


def test_errors_and_workers_are_told_per_attempt(database, tasks, seen):
    result = samples.fail_twice.enqueue("down")
    tasks.run_due()
    result.refresh()
    assert (result.status, result.finished_at, len(result.errors)) == (TaskResultStatus.READY, None, 1)
    tasks.run_until_idle()
    result.refresh()
    assert result.return_value == 42
    assert [error.exception_class for error in result.errors] == [ConnectionError, ConnectionError]
    assert "ConnectionError: down 2\n" in result.errors[1].traceback
    assert result.worker_ids == [tasks.worker_id] * 3
    assert result.attempts == 3


def test_a_return_value_that_is_not_json_is_a_type_error(database, tasks):
    result = samples.return_bytes.enqueue()
    tasks.run_until_idle()
    result.refresh()
    assert result.status == TaskResultStatus.FAILED
    assert result.errors[0].exception_class is TypeError


def test_a_cancelled_task_is_a_failed_one_with_a_cancellation(database):
    result = plain.noop.enqueue()
    Task.objects.get(pk=result.id).cancel(by="operator", reason="no longer wanted")
    result.refresh()
    assert result.is_finished
    assert result.errors[0].exception_class is TaskCancelled
    assert "no longer wanted" in result.errors[0].traceback


def test_a_lost_task_is_a_failed_one_with_a_lost_lease(database, travel):
    task = Task.objects.enqueue(plain.noop, max_attempts=1)
    taskqueue.claim("worker")
    travel(1000)
    taskqueue.recover()
    result = task_backends["default"].get_result(str(task.pk))
    assert result.status == TaskResultStatus.FAILED
    assert result.errors[0].exception_class is LeaseLost


def test_the_backoff_function_sees_the_result_with_all_errors(database, tasks, seen):
    result = samples.fail_as_asked.enqueue()
    tasks.run_until_idle()
    assert [(type(told).__name__, told.id, len(told.errors)) for told in seen] == [
        ("TaskResult", result.id, n) for n in (1, 2, 3)
    ]
    assert tasks.history(result) == ["failed", "failed", "failed"]


def test_a_backend_that_does_not_exist_is_named():
    with pytest.raises(ImproperlyConfigured, match="nowhere"):
        plain.noop.using(backend="nowhere")
