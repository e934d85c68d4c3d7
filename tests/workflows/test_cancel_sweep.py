"""Cancelling a workflow is one decision: workers finish it if the canceller dies between the parent and its members."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from django.db import connections

from django_tasks_retry import call, taskqueue
from django_tasks_retry.models import Task, TaskEvent
from django_tasks_retry.taskqueue import CancelSweep
from django_tasks_retry.taskqueue.workflows import cancel as cancel_sweep
from django_tasks_retry.testing import Tasks
from django_tasks_retry.testing.crash import Killed
from django_tasks_retry.worker.shared.database import DatabaseCaller
from django_tasks_retry.worker.shared.outcomes import Counts, OutcomePublisher
from django_tasks_retry.worker.supervisor.maintenance.maintenance import Maintenance
from tests.admin.unguarded import overwrite
from tests.model.invariants import violations
from tests.steps import now_of
from tests.workflows import tasks
from tests.workflows.scene import members, run_one
from tests.workflows.test_faults import clean, disturbed


@pytest.fixture
def dies_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """The canceller dies when the parent is cancelled and its members are not."""

    def dies(*_: Any) -> None:
        raise Killed

    monkeypatch.setattr(cancel_sweep, "cancel_below", dies)


@pytest.fixture
def small_stack() -> Iterator[Callable[[], None]]:
    """Leave room for a statement of Django, which takes some 60 frames, and not for two frames a level."""
    before = sys.getrecursionlimit()
    yield lambda: sys.setrecursionlimit(len(inspect.stack(context=0)) + 150)
    sys.setrecursionlimit(before)


def cancel_and_die(task: Task, **why: Any) -> None:
    with pytest.raises(Killed):
        now_of(task).cancel(**why)


def statuses() -> list[str]:
    return [member.status for member in members()]


def started(harness: Tasks, func: Any, *args: Any, **options: Any) -> Task:
    """Enqueue a workflow and run it up to where it waits."""
    task: Task = Task.objects.enqueue(func, list(args), priority=100, **options)
    run_one(harness)
    return task


@pytest.mark.usefixtures("dies_in_between")
def test_members_of_a_cancelled_parent_are_cancelled_by_the_sweep_for_the_same_reason(harness):
    task = started(harness, tasks.fan_out, [1, 2, 3])
    innocent = started(harness, tasks.fan_out, [4])
    taskqueue.claim("w", limit=1)
    cancel_and_die(task, by="ana", reason="wrong file")
    assert sorted(statuses()) == ["PENDING", "PENDING", "PENDING", "RUNNING"]
    assert len(CancelSweep()()) == 3
    assert statuses() == ["CANCELLED"] * 3 + ["PENDING"]
    events = TaskEvent.objects.filter(kind="task.cancelled")
    assert {(event.actor, event.data["reason"]) for event in events} == {("ana", "wrong file")}
    harness.run_due()
    assert now_of(innocent).status == "SUCCESS"
    assert violations(harness.using) == []


@pytest.mark.usefixtures("dies_in_between")
def test_the_sweep_goes_down_level_by_level(harness):
    task = started(harness, tasks.tree, 3, 2)
    run_one(harness)
    run_one(harness)
    cancel_and_die(task)
    sweep = CancelSweep()
    while sweep():
        pass
    assert set(statuses()) == {"CANCELLED"}
    assert len(statuses()) > 2


def test_a_chain_of_more_levels_than_the_stack_has_room_for_is_cancelled_to_its_end(harness, small_stack):
    """Stands for 600 levels on a whole stack, which take a minute to build."""
    task = started(harness, tasks.tree, 100, 1)
    for _ in range(99):
        run_one(harness)
    small_stack()
    now_of(task).cancel()
    assert statuses() == ["CANCELLED"] * 100


@pytest.mark.usefixtures("dies_in_between")
def test_the_batch_of_a_cancelled_callback_is_cancelled(harness):
    Task.objects.enqueue_many([call(tasks.double, 1), call(tasks.double, 2)], then=call(tasks.publish, "x"))
    cancel_and_die(Task.objects.get(waits_for__isnull=False))
    assert len(CancelSweep()()) == 2


@pytest.mark.usefixtures("dies_in_between")
def test_a_batch_with_a_callback_outlives_the_task_that_enqueued_it(harness):
    parent = Task.objects.enqueue(tasks.double, [1])
    Task.objects.enqueue_many([call(tasks.double, 2)], then=call(tasks.publish, "x"))
    for member in members():
        overwrite(member, harness.using, parent_id=stored(parent.pk, harness.using))
    cancel_and_die(parent)
    assert CancelSweep()() == []


def stored(value: UUID | None, using: str) -> str:
    return str(value) if connections[using].vendor == "postgresql" else str(value).replace("-", "")


@pytest.mark.plain_layout  # the row that is overwritten would have moved to its period
@pytest.mark.usefixtures("dies_in_between")
def test_members_that_members_added_are_cancelled_even_if_they_sort_first(harness):
    """Ids come from the clocks of hosts, so a member that was added may sort before the first ones."""
    task = started(harness, tasks.grow, 3)
    run_one(harness)
    first, added = members()
    assert added.parent_id == first.pk
    overwrite(first, harness.using, batch=None)
    cancel_and_die(task)
    assert CancelSweep()() == [], "nothing leads from the member that is left to the batch"
    overwrite(first, harness.using, batch=stored(added.batch, harness.using))
    assert cancel_sweep.outside(added.batch, added.parent_id, harness.using) == task.pk
    assert CancelSweep()() == [added.pk]


def test_a_task_that_replaces_a_waiting_workflow_takes_its_members_along(harness):
    task = started(harness, tasks.fan_out, [1, 2], unique_key="one")
    Task.objects.enqueue(tasks.fan_out, [[3]], unique_key="one", on_conflict="replace")
    assert now_of(task).status == "CANCELLED"
    assert len(CancelSweep()()) == 2


def test_members_that_were_retried_after_the_cancellation_run(harness):
    task = started(harness, tasks.grow, 3)
    now_of(task).cancel()
    harness.advance(seconds=1)
    [retried] = taskqueue.retry([members()[0].pk])
    assert CancelSweep()() == []
    run_one(harness)
    assert now_of(retried).status == "SUCCESS"
    assert statuses()[-1] == "PENDING", "it added a member"
    assert CancelSweep()() == []


@pytest.mark.usefixtures("dies_in_between")
def test_members_that_a_resumed_retry_waits_for_run_until_that_is_cancelled_too(harness):
    task = started(harness, tasks.fan_out, [1, 2])
    cancel_and_die(task)
    second = now_of(task).retry(resume=True)
    assert CancelSweep()() == []
    harness.advance(seconds=1)
    cancel_and_die(second)
    assert len(CancelSweep()()) == 2


@pytest.mark.usefixtures("dies_in_between")
def test_members_run_on_for_no_retry_that_begins_anew(harness):
    task = started(harness, tasks.fan_out, [1, 2])
    cancel_and_die(task)
    now_of(task).retry()
    assert len(CancelSweep()()) == 2


@pytest.mark.usefixtures("dies_in_between")
def test_the_sweep_cancels_a_bounded_number_and_comes_past_every_batch(harness, monkeypatch):
    monkeypatch.setattr(cancel_sweep, "PAGE", 2)
    monkeypatch.setattr(cancel_sweep, "MOST", 2)
    for task in [started(harness, tasks.fan_out, [n, n, n]) for n in range(1, 6)]:
        cancel_and_die(task)
    sweep = CancelSweep()
    assert [(len(sweep()), sweep.is_behind) for _ in range(6)] == [
        (4, True), (2, False), (4, True), (2, False), (2, True), (1, False),
    ]  # fmt: skip
    assert set(statuses()) == {"CANCELLED"}


@pytest.mark.usefixtures("dies_in_between")
def test_every_worker_finishes_a_cancellation(harness):
    cancel_and_die(started(harness, tasks.fan_out, [1, 2]))
    caller = DatabaseCaller(harness.using, 15.0, lambda until: None)
    Maintenance("w", "default", caller, OutcomePublisher(Counts().note, print), print).tick()
    assert statuses() == ["CANCELLED"] * 2


@pytest.mark.usefixtures("dies_in_between")
def test_a_batch_with_rows_that_cannot_be_read_costs_no_other_its_sweep(harness, monkeypatch, caplog):
    odd, other = started(harness, tasks.fan_out, [1]), started(harness, tasks.fan_out, [2])
    cancel_and_die(odd)
    cancel_and_die(other)
    outside = cancel_sweep.outside

    def unreadable(batch: Any, parent: Any, using: str) -> Any:
        if parent == odd.pk:
            raise ValueError("year 294276 is out of range")
        return outside(batch, parent, using)

    monkeypatch.setattr(cancel_sweep, "outside", unreadable)
    assert len(CancelSweep()()) == 1
    assert CancelSweep()() == []
    assert caplog.text.count("cancel its members yourself") == 1


@pytest.mark.fault("workflow_cancel_killed")
def test_a_canceller_may_be_killed_at_any_statement(committed):
    """However far it came, no member is left to run for a cancelled parent."""
    kit = Tasks()
    nth, seen = 1, 0
    while seen >= nth - 1:
        task = started(kit, tasks.tree, 2, 2)
        run_one(kit)
        with disturbed(kit.using, nth, "killed") as wrapper:
            taskqueue.cancel([task.pk])
        seen = wrapper.seen
        sweep = CancelSweep()
        while sweep():
            pass
        open_left = Task.objects.unfinished().filter(batch__isnull=False).exists()
        assert open_left == (now_of(task).status != "CANCELLED"), nth
        assert violations(kit.using) == [], nth
        taskqueue.cancel(list(Task.objects.unfinished().values_list("pk", flat=True)))
        clean()
        nth += 1
    kit.close()
    assert nth > 6, "cancelling a workflow takes several statements"
