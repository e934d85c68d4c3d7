"""The sweep finds whom nobody woke: soon, by what happened lately; and whatever happened, by going round."""

from __future__ import annotations

import pytest

from django_tasks_retry import signal, taskqueue
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import PendingMaintenance, Sweep, find_pending_maintenance
from django_tasks_retry.taskqueue.workflows.wake import FIRST
from django_tasks_retry.testing.inline import hooks_run_after, run_inline
from django_tasks_retry.worker.shared.database import DatabaseCaller
from django_tasks_retry.worker.shared.outcomes import Counts, OutcomePublisher
from django_tasks_retry.worker.supervisor.maintenance.maintenance import Maintenance
from tests.steps import now_of
from tests.workflows import tasks
from tests.workflows.scene import result_of, run_one


@pytest.fixture
def nobody_wakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that records the end of a member dies before it has asked which tasks wait."""
    monkeypatch.setattr("django_tasks_retry.taskqueue.workflows.wake.wake", lambda keys, using: [])


def test_the_sweep_wakes_whom_nobody_woke(harness, monkeypatch):
    task = Task.objects.enqueue(tasks.fan_out, [[1]])
    monkeypatch.setattr("django_tasks_retry.taskqueue.workflows.wake.wake", lambda keys, using: [])
    run_one(harness)
    run_one(harness)
    assert now_of(task).waits_for is not None
    sweep = Sweep(after=("signal:x", task.pk))
    assert (sweep.page(), sweep.page()) == ([], [task.pk]), "it starts somewhere, and comes round"
    harness.run_due()
    assert result_of(task) == [1]


def test_the_sweep_comes_past_everybody(harness, monkeypatch):
    monkeypatch.setattr("django_tasks_retry.taskqueue.workflows.wake.PAGE", 2)
    waiting = [Task.objects.enqueue(tasks.approval, ["same"]).pk for _ in range(5)]
    harness.run_due()
    taskqueue.signal("same")
    assert sorted(Sweep().everything()) == waiting


def test_every_worker_sweeps(harness, monkeypatch):
    task = Task.objects.enqueue(tasks.approval, ["go"])
    harness.run_due()
    taskqueue.signal("go")
    caller = DatabaseCaller(harness.using, 15.0, lambda until: None)
    maintenance = Maintenance("w", "default", caller, OutcomePublisher(Counts().note, print), print)
    maintenance.wake.sweep.after = ("", task.pk)
    assert find_pending_maintenance() == PendingMaintenance(waiting=True)
    maintenance.tick()
    assert now_of(task).waits_for is None
    assert find_pending_maintenance() == PendingMaintenance()


FAR = ("signal:zzz", FIRST.id)
"""From here the round has a long way to go."""


@pytest.mark.usefixtures("nobody_wakes")
@pytest.mark.parametrize("how", [{}, {"fail_fast": True}])
def test_a_batch_that_ended_lately_is_found_wherever_the_round_has_come_to(harness, how):
    task = Task.objects.enqueue(tasks.fan_out, [[1]], how)
    run_one(harness)
    sweep = Sweep(after=FAR)
    assert sweep.recent() == [], "its member is open"
    run_one(harness)
    assert sweep.recent() == [task.pk]
    assert sweep.recent() == [], "it waits no more"


@pytest.mark.usefixtures("nobody_wakes")
def test_a_member_that_failed_lately_wakes_who_fails_fast(harness):
    task = Task.objects.enqueue(tasks.fan_out, [[-1, 2]], {"fail_fast": True})
    run_one(harness)
    run_one(harness)
    assert Sweep(after=FAR).recent() == [task.pk]


@pytest.mark.usefixtures("nobody_wakes")
def test_a_signal_that_came_lately_is_found_and_an_old_one_by_the_round(harness):
    task = Task.objects.enqueue(tasks.approval, ["go"])
    run_one(harness)
    signal("go")
    assert Sweep(after=FAR).recent() == [task.pk]
    late = Task.objects.enqueue(tasks.approval, ["went"])
    signal("went")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("django_tasks_retry.taskqueue.workflows.context.received", lambda name, using: None)
        run_inline(next(lease for lease in taskqueue.claim("w", limit=2) if lease.id == late.pk))
    harness.advance(seconds=61)
    sweep = Sweep()
    assert sweep.recent() == []
    assert sweep.everything() == [late.pk]


def test_a_crowd_that_waits_for_one_signal_is_woken_a_bounded_number_at_a_time(harness, monkeypatch):
    for place in ("wake.PAGE", "wake.MOST"):
        monkeypatch.setattr(f"django_tasks_retry.taskqueue.workflows.{place}", 2)
    for _ in range(7):
        Task.objects.enqueue(tasks.approval, ["go"])
    harness.run_due()
    with hooks_run_after():
        signal("go")
    assert Task.objects.suspended().count() == 5, "who sends it does not wait for all of them"
    sweep = Sweep(after=FAR)
    assert len(sweep()) == 2
    assert sweep.is_behind, "so the next round comes at once"
    sweep()
    sweep()
    assert not Task.objects.suspended().exists()
