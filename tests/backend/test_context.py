from __future__ import annotations

import pytest

from django_tasks_retry.compat import TaskContext
from django_tasks_retry.errors import LeaseLost
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import claim
from django_tasks_retry.taskqueue.renewal import lease_holds, report_progress
from tests import tasks as plain
from tests.backend import samples


def progress_after(tasks, task, *args):
    result = task.enqueue(*args)
    tasks.run_due()
    row = Task.objects.get(pk=result.id)
    assert row.status == "SUCCESS", row.last_error
    return row.progress


def test_the_context_tells_attempt_budget_metadata_and_run(database, tasks, seen):
    row = Task.objects.enqueue(samples.look, metadata={"tenant": 7}, max_attempts=9)
    tasks.run_due()
    [context] = seen
    assert isinstance(context, TaskContext)
    assert (context.attempt, context.max_attempts, context.metadata) == (1, 9, {"tenant": 7})
    assert context.run_id == row.run_id
    assert context.task_result.id == str(row.pk)


def test_progress_is_stored_as_it_was_told(database, tasks):
    assert progress_after(tasks, samples.report, 3, 10, "importing") == {"done": 3, "total": 10, "note": "importing"}


def test_progress_is_seen_over_other_connections_while_the_task_runs(committed, tasks, seen):
    samples.report_and_ask_elsewhere.enqueue()
    tasks.run_due()
    assert seen == [{"done": 1, "total": 2, "note": "half"}]


def test_a_coroutine_reports_its_progress_and_asks_for_its_lease(database, tasks, seen):
    assert progress_after(tasks, samples.look_async) == {"done": 1, "total": 2, "note": "half"}
    assert seen[0][1] is True


def test_a_note_is_bounded_and_storable(database, tasks):
    progress = progress_after(tasks, samples.report, 1, None, "x" * 10_000)
    assert len(progress["note"].encode()) <= 500
    [lease] = claim_one()
    report_progress(lease, 1, note="nul \0 and surrogate \ud800")
    assert Task.objects.get(pk=lease.id).progress["note"] == "nul \\u0000 and surrogate \\ud800"


def claim_one():
    plain.noop.enqueue()
    return claim("worker")


@pytest.mark.parametrize("done", ["3", None, True, float("nan")])
def test_progress_takes_numbers_only(database, done):
    [lease] = claim_one()
    with pytest.raises(ValueError, match="done"):
        report_progress(lease, done)


def test_a_task_that_lost_its_lease_learns_it(database, tasks, seen):
    result = samples.lose_then_report.enqueue()
    tasks.run_due()
    assert seen == [False]
    assert tasks.history(result) == ["cancelled"]


def test_progress_of_a_lost_lease_changes_nothing(database, travel):
    [lease] = claim_one()
    assert lease_holds(lease)
    travel(100)
    assert not lease_holds(lease)
    with pytest.raises(LeaseLost, match="EXPIRED"):
        report_progress(lease, 1)
    assert Task.objects.get(pk=lease.id).progress is None


def test_progress_keeps_the_lease_as_it_was(database):
    [lease] = claim_one()
    report_progress(lease, 1, 2)
    row = Task.objects.get(pk=lease.id)
    assert (row.locked_by, row.attempts, row.lock_expires_at) == (lease.locked_by, 1, lease.lock_expires_at)


@pytest.mark.parametrize("task", [samples.report_in_transaction, samples.report_atomically])
def test_progress_takes_no_lock_within_the_tasks_own_transaction(database, tasks, task):
    assert progress_after(tasks, task) is None
