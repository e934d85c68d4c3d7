"""Prune: finished tasks past their retention, by status, a batch at a time; nothing younger and nothing unfinished."""

from __future__ import annotations

import json
import time

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Task, TaskEvent, TaskResult
from django_tasks_retry.rules.status import Status
from tests import tasks
from tests.steps import enqueue, task_in

DAY = 86_400


def finished(count):
    made = Task.objects.enqueue_many([tasks.noop] * count)
    taskqueue.cancel(task.pk for task in made)
    return made


def one_of_each():
    return {status: task_in(status)[0] for status in reversed(Status)}


def left():
    return set(Task.objects.values_list("status", flat=True))


def test_nothing_young_is_pruned(database):
    one_of_each()
    assert list(taskqueue.prune()) == []
    assert Task.objects.count() == 5


@pytest.mark.plain_layout
def test_each_status_has_its_own_retention(database, travel):
    one_of_each()
    travel(13.9 * DAY)
    assert list(taskqueue.prune()) == []
    travel(0.2 * DAY)
    assert sum(taskqueue.prune()) == 1
    assert left() == {"PENDING", "RUNNING", "FAILED", "CANCELLED"}
    travel(76 * DAY)
    assert sum(taskqueue.prune()) == 2
    assert left() == {"PENDING", "RUNNING"}


def test_unfinished_tasks_are_kept_for_ever(database, travel):
    one_of_each()
    travel(10_000 * DAY)
    list(taskqueue.prune())
    assert left() == {"PENDING", "RUNNING"}


@pytest.mark.plain_layout
def test_results_and_events_go_with_their_task_and_with_no_other(database, travel):
    made = one_of_each()
    travel(15 * DAY)
    young = enqueue()
    young.cancel()
    list(taskqueue.prune())
    gone = made[Status.SUCCESS].pk
    assert not TaskResult.objects.filter(task_id=gone).exists()
    assert not TaskEvent.objects.filter(task_id=gone).exists()
    assert TaskResult.objects.count() == 3
    assert young.events.count() == 1


def test_age_counts_from_the_end_and_not_from_the_enqueue(database, travel):
    old = enqueue()
    travel(30 * DAY)
    taskqueue.complete_task(taskqueue.claim("worker")[0])
    assert list(taskqueue.prune()) == []
    travel(15 * DAY)
    assert list(taskqueue.prune()) == [1]
    assert not Task.objects.filter(pk=old.pk).exists()


def test_retention_comes_from_the_options(database, travel, configure):
    configure(KEEP_SUCCESS=None, KEEP_FAILED=60, KEEP_CANCELLED=None)
    one_of_each()
    travel(1000 * DAY)
    list(taskqueue.prune())
    assert left() == {"PENDING", "RUNNING", "SUCCESS", "CANCELLED"}


def test_retention_may_be_given(database, travel):
    one_of_each()
    travel(10)
    assert sum(taskqueue.prune(keep={Status.SUCCESS: 5, Status.FAILED: None})) == 1
    assert left() == {"PENDING", "RUNNING", "FAILED", "CANCELLED"}


@pytest.mark.plain_layout
def test_many_go_in_batches_each_its_own_few_statements(database, travel):
    finished(95)
    travel(91 * DAY)
    with CaptureQueriesContext(connections[database]) as captured:
        assert list(taskqueue.prune(batch=20)) == [20, 20, 20, 20, 15]
    assert len(captured) <= 60
    assert (Task.objects.count(), TaskEvent.objects.count(), TaskResult.objects.count()) == (0, 0, 0)


def test_stopping_between_batches_keeps_what_is_done(database, travel):
    finished(30)
    travel(91 * DAY)
    batches = taskqueue.prune(batch=10)
    next(batches)
    del batches
    assert Task.objects.count() == 20


def test_young_ones_between_old_ones_are_stepped_over(database, travel):
    made = finished(10)
    travel(91 * DAY)
    again = [task.retry() for task in made[::3]]
    taskqueue.cancel(task.pk for task in again)
    assert list(taskqueue.prune(batch=3)) == [3, 3, 3, 1]
    assert {task.pk for task in Task.objects.all()} == {task.pk for task in again}


def two_backends(settings, **audit):
    ours = settings.TASKS["default"]
    settings.TASKS = {"default": {**ours, "OPTIONS": {"KEEP_CANCELLED": 60}}, "audit": {**ours, "OPTIONS": audit}}


@pytest.mark.fault("two_backends_two_retentions")
def test_the_history_of_another_backend_in_the_same_database_stays(database, travel, settings):
    two_backends(settings, KEEP_CANCELLED=None)
    made = Task.objects.enqueue_many({"func": tasks.noop, "backend": ("default", "audit")[n % 2]} for n in range(20))
    taskqueue.cancel(task.pk for task in made)
    travel(100 * DAY)
    assert list(taskqueue.prune(batch=6)) == [3, 3, 3, 1]
    assert set(Task.objects.values_list("backend", flat=True)) == {"audit"}
    assert (Task.objects.count(), TaskEvent.objects.count(), TaskResult.objects.count()) == (10, 10, 10)
    assert list(taskqueue.prune(backend="audit")) == []


@pytest.mark.fault("two_backends_two_retentions")
def test_each_backend_prunes_its_own(database, travel, settings):
    two_backends(settings, KEEP_CANCELLED=3600)
    made = Task.objects.enqueue_many({"func": tasks.noop, "backend": alias} for alias in ("default", "audit"))
    taskqueue.cancel(task.pk for task in made)
    travel(100)
    assert list(taskqueue.prune(backend="audit")) == []
    travel(4000)
    assert list(taskqueue.prune(backend="audit")) == [1]
    assert Task.objects.get().backend == "default"


@pytest.mark.plain_layout
def test_a_page_on_which_all_is_kept_is_a_step_of_its_own(database, travel, settings):
    """So that a worker's database call stays short however much another backend keeps."""
    two_backends(settings, KEEP_CANCELLED=None)
    made = Task.objects.enqueue_many({"func": tasks.noop, "backend": "audit"} for _ in range(6))
    taskqueue.cancel(task.pk for task in made)
    travel(100 * DAY)
    assert list(taskqueue.prune_pages(batch=2)) == [0, 0, 0]


@pytest.mark.plain_layout
@pytest.mark.fault("host_clock_far_ahead")
def test_tasks_whose_ids_lie_in_the_future_are_pruned_like_others(database, travel, monkeypatch):
    real = time.time_ns()
    with monkeypatch.context() as patch:
        patch.setattr("django_tasks_retry.taskqueue.new_tasks.time.time_ns", lambda: real + 4000 * DAY * 10**9)
        ahead = finished(5)
    finished(5)
    travel(89 * DAY)
    assert list(taskqueue.prune()) == []
    travel(2 * DAY)
    assert list(taskqueue.prune()) == [5, 5]
    assert not Task.objects.filter(pk__in=[task.pk for task in ahead]).exists()


@pytest.mark.plain_layout
def test_what_is_deleted_stands_in_a_file_first(database, travel, configure, tmp_path):
    configure(EXPORT_TO=str(tmp_path))
    made = one_of_each()
    travel(15 * DAY)
    list(taskqueue.prune())
    [path] = tmp_path.glob("*.jsonl")
    [line] = path.read_text(encoding="utf-8").splitlines()
    written = json.loads(line)
    assert written["task"]["id"] == str(made[Status.SUCCESS].pk)
    assert written["result"]["result"] == "done"
    assert [event["kind"] for event in written["events"]] == ["task.running", "task.completed"]


def test_nothing_is_deleted_where_it_cannot_be_written(database, travel, configure, tmp_path):
    (tmp_path / "file").write_text("in the way")
    configure(EXPORT_TO=str(tmp_path / "file"))
    one_of_each()
    travel(400 * DAY)
    assert list(taskqueue.prune()) == []
    assert Task.objects.count() == 5
