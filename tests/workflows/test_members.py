"""A batch that people and time change: nothing is miscounted, left running or lost unseen."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from django_tasks_retry import call, taskqueue
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue.workflows import cancel as cancelling
from django_tasks_retry.testing.inline import run_inline
from tests.steps import claim_one, now_of
from tests.workflows import tasks
from tests.workflows.scene import members, result_of, run_one


def test_of_two_retries_of_one_member_the_later_counts(harness, monkeypatch):
    task = Task.objects.enqueue(tasks.fan_out, [[-1, 2]])
    run_one(harness)
    run_one(harness)
    [failed, _] = members()
    now_of(failed).retry()
    harness.run_due()
    assert now_of(task).last_error["exception"].endswith("MembersFailed")
    monkeypatch.setattr(tasks, "is_negative", lambda number: False)
    now_of(failed).retry()
    harness.run_until_idle()
    assert result_of(task) == [-1, 2]


def test_a_resumed_task_whose_members_were_pruned_says_so_instead_of_counting_none(harness):
    task = Task.objects.enqueue(tasks.fan_out, [[1, -2]], max_attempts=1)
    harness.run_due()
    taskqueue.retention.prune.delete_tasks([member.pk for member in members()], harness.using)
    resumed = now_of(task).retry(resume=True)
    harness.run_due()
    assert "2 of the 2 members" in now_of(resumed).last_error["message"]


def test_a_retried_callback_whose_members_were_pruned_says_so(harness):
    Task.objects.enqueue_many([call(tasks.double, n) for n in (1, 2, 3)], then=call(tasks.publish, "x"))
    callback = Task.objects.get(waits_for__isnull=False)
    harness.run_due()
    taskqueue.retention.prune.delete_tasks([members()[0].pk], harness.using)
    again = Task.objects.get(pk=callback.pk).retry()
    harness.run_due()
    assert "1 of the 3 members" in now_of(again).last_error["message"]


def test_members_are_kept_while_their_callback_runs_or_is_tried_again(harness):
    Task.objects.enqueue_many([call(tasks.double, 4)], then=call(tasks.publish, "x"))
    run_one(harness)
    harness.advance(days=400)
    lease = claim_one("callback")
    assert list(taskqueue.prune()) == []
    taskqueue.fail_task(lease, RuntimeError("try again"))
    assert list(taskqueue.prune()) == []
    harness.run_until_idle()
    assert result_of(Task.objects.get(pk=lease.id)) == ["x", 8]


def test_members_are_kept_while_a_resumed_task_may_ask_for_their_results(harness):
    task = Task.objects.enqueue(tasks.gather_and_fail, [[1, 2]], max_attempts=1)
    harness.run_due()
    first = now_of(task).retry(resume=True)
    now_of(first).cancel()
    second = now_of(first).retry(resume=True)
    harness.advance(days=400)
    list(taskqueue.prune())
    harness.run_until_idle()
    assert result_of(second) == 3


def test_a_task_that_expires_while_it_waits_takes_its_members_along(harness):
    task = Task.objects.enqueue(tasks.fan_out, [[1, 2]], expires=timedelta(seconds=60))
    run_one(harness)
    harness.advance(seconds=61)
    taskqueue.expire(actor="clock")
    assert now_of(task).status == "CANCELLED"
    assert {member.status for member in members()} == {"CANCELLED"}


def test_members_added_while_their_batch_is_cancelled_are_cancelled_as_well(harness, monkeypatch):
    """A member that still ran when the others were listed added one more before its own lease was revoked."""
    task = Task.objects.enqueue(tasks.grow, [3])
    run_one(harness)
    lease = claim_one(harness.worker_id)
    listed, add = cancelling.unfinished_below, partial(run_inline, lease)

    def unfinished_below(ids: Any, using: str) -> Any:
        found = listed(ids, using)
        if members()[-1].pk == lease.id:
            add()
        return found

    monkeypatch.setattr(cancelling, "unfinished_below", unfinished_below)
    now_of(task).cancel(reason="enough")
    assert len(members()) == 2
    assert [member.status for member in members()] == ["SUCCESS", "CANCELLED"]


@pytest.mark.parametrize("count", [1, 2])
def test_a_repeating_member_ends_with_its_first_run(harness, count):
    calls = [call(tasks.double, n).using(interval=3600) for n in range(count)]
    Task.objects.enqueue_many(calls, then=call(tasks.publish, "x"))
    callback = Task.objects.get(waits_for__isnull=False)
    harness.run_due()
    assert result_of(callback) == ["x", *range(0, 2 * count, 2)]
