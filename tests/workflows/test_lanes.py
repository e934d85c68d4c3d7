"""Workflows in lanes: every task of a graph keeps its lane, and none waits for what its own waiting holds back."""

from __future__ import annotations

from django_tasks_retry import call
from django_tasks_retry.display.explain_limits import order_sentence
from django_tasks_retry.display.scope import current_scope
from django_tasks_retry.models import Task
from django_tasks_retry.testing.inline import run_inline
from tests.steps import claim_one
from tests.workflows import tasks
from tests.workflows.scene import result_of

LANE = "ledger-7"


def lanes() -> set[str]:
    return set(Task.objects.values_list("lane", flat=True))


def test_members_a_woken_parent_and_a_retry_keep_their_lane(harness):
    calls = [call(tasks.double, number).using(lane="tenant-7") for number in (1, 2)]
    [first, _] = Task.objects.enqueue_many(calls, then=call(tasks.publish, "news").using(lane="tenant-7"))
    harness.run_due()
    first.retry(resume=True)
    assert Task.objects.count() == 4
    assert lanes() == {"tenant-7"}
    assert {task.status for task in Task.objects.all()} == {"SUCCESS", "PENDING"}


def test_in_strict_order_members_go_before_the_one_that_waits_for_them(harness):
    task = Task.objects.enqueue(tasks.settle, [7, [1, 2, 3]])
    harness.run_due()
    assert result_of(task) == 6
    assert lanes() == {LANE}


def test_in_strict_order_nothing_else_begins_while_one_waits_for_its_members(harness):
    task = Task.objects.enqueue(tasks.settle, [7, [1, [2, 3], 4]])
    Task.objects.enqueue(tasks.enter, [7, 100])
    harness.run_due()
    assert result_of(task) == 10
    assert tasks.calls == [1, 2, 3, 4, 100]


def test_in_strict_order_it_is_told_who_waits_for_whom(harness):
    task = Task.objects.enqueue(tasks.settle, [7, [1]])
    behind = Task.objects.enqueue(tasks.enter, [7, 100])
    run_inline(claim_one(harness.worker_id))
    [member] = Task.objects.filter(batch__isnull=False)
    assert order_sentence(member, current_scope()) == ""
    assert str(task.pk) in order_sentence(behind, current_scope())
