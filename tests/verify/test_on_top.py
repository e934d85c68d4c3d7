"""`tasks verify` sees each promise of lanes, unique keys, expiry, followers, steps, batches and schedules."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from django_tasks_retry import call, clock, taskqueue
from django_tasks_retry.models import Schedule, Step, Task
from django_tasks_retry.testing import Tasks
from django_tasks_retry.verify.rules import RULES
from tests import tasks
from tests.cli.conftest import cli  # noqa: F401
from tests.lanes.test_limits import with_lanes
from tests.schedules.steps import plan, tick
from tests.verify.test_verify import DOCTORED, change, change_event, event, found_rules, unguarded
from tests.workflows import tasks as workflows


class Scene:
    """A sound history of what stands on top: a lane, a unique key, an expiry, a workflow, a schedule."""

    def __init__(self, travel: Callable[[float], None]) -> None:
        self.graph = Task.objects.enqueue(workflows.node, [{"op": "sum", "of": [1, 2, 3]}])
        Tasks().run_due()
        plan(queue="emails", overlap="allow", every=timedelta(minutes=1))
        self.slots = [self.next_slot(travel) for _ in range(3)]
        self.first, self.second = (Task.objects.enqueue(tasks.noop) for _ in range(2))
        [failed] = taskqueue.claim("one-1-a/1", ["default"], limit=1)
        taskqueue.fail_task(failed, RuntimeError("boom"))
        travel(0.001)
        [lease] = taskqueue.claim("one-1-a/1", ["default"], limit=1)
        taskqueue.complete_task(lease, None)
        travel(10)
        [lease] = taskqueue.claim("two-2-b/1", ["default"], limit=1)
        taskqueue.complete_task(lease, None)
        self.pair = [Task.objects.enqueue(tasks.noop) for _ in range(2)]
        leases = taskqueue.claim("two-2-b/1", ["default"], limit=2)
        travel(1)
        for lease in leases:
            taskqueue.complete_task(lease, None)
        self.member = Task.objects.filter(parent=self.graph).order_by("pk")[0]
        self.many = [Task.objects.enqueue(tasks.noop) for _ in range(6)]
        for _ in self.many:
            [lease] = taskqueue.claim("two-2-b/1", ["default"], limit=1)
            taskqueue.complete_task(lease, None)

    def next_slot(self, travel: Callable[[float], None]) -> Task:
        travel(60)
        tick()
        return Task.objects.filter(schedule__isnull=False).order_by("slot").last()


def change_all(rows: Any, **changes: Any) -> None:
    for row in rows:
        change(row, **changes)


def end_later(task: Task) -> None:
    """The member ended an hour later than its workflow."""
    later = task.finished_at + timedelta(hours=1)
    change(task, finished_at=later)
    change_event(task, "completed", ts=later)


def forge_step(task: Task, **claims: Any) -> None:
    columns = {"attempt": 1, "actor": "one-1-a/1", "ts": event(task, "completed").ts, "kind": "step", "name": "forged"}
    Step.objects.create(task=task, result=1, **columns | claims)


def miscount(scene: Scene) -> None:
    step = Step.objects.get(task=scene.graph, kind="batch")
    Step.objects.filter(pk=step.pk).update(result={**step.result, "count": 99})


def off_rhythm(scene: Scene) -> None:
    slot = scene.slots[1].slot + timedelta(milliseconds=1)
    change(scene.second, schedule_id=scene.slots[1].schedule_id, slot=slot)


ON_TOP: dict[str, tuple[str, Callable[[Scene], Any]]] = {
    "two at once in a lane for one": ("limits", lambda s: change_all(s.pair, lane="tests.tasks.one")),
    "six starts in a window for five": ("rates", lambda s: change_all(s.many, lane="api-a")),
    "a task between two attempts of another": ("order", lambda s: change_all([s.first, s.second], lane="account-1")),
    "two of one key ran at once": ("unique", lambda s: change_all(s.pair, unique_key="k")),
    "two of one key wait": ("unique", lambda s: change_all(s.slots[:2], unique_key="k")),
    "a key that was given again in its time": (
        "throttle",
        lambda s: change_all(
            [s.first, s.many[0]], unique_key="k", unique_until=s.many[0].created_at + timedelta(hours=1)
        ),
    ),
    "a start after the deadline": (
        "deadline",
        lambda s: change(s.second, deadline_at=s.second.created_at - timedelta(hours=1)),
    ),
    "a start after the expiry": (
        "expiry",
        lambda s: change(s.second, expires_at=s.second.created_at - timedelta(hours=1)),
    ),
    "a follower that did not wait": ("follows", lambda s: change(s.pair[1], follows_id=s.pair[0].pk)),
    "a follower of a task that never ended": ("follows", lambda s: change(s.second, follows_id=s.slots[0].pk)),
    "a step of an attempt that never was": ("steps", lambda s: forge_step(s.second, attempt=9)),
    "a step by a stranger": ("steps", lambda s: forge_step(s.second, actor="stranger")),
    "a step after the lease": (
        "steps",
        lambda s: forge_step(s.second, ts=event(s.second, "completed").ts + timedelta(hours=1)),
    ),
    "a step that was given after the claim": ("steps", lambda s: forge_step(s.first, attempt=0)),
    "an outcome without an intent": ("effects", lambda s: forge_step(s.second, kind="effect")),
    "an effect that was repeated without a reason": (
        "effects",
        lambda s: [forge_step(s.second, kind="intent", name=f"mail:intent-{n}") for n in (1, 2)],
    ),
    "a workflow that went on too early": ("gather", lambda s: end_later(s.member)),
    "a batch that counts too many": ("batches", miscount),
    "a member that somebody added": ("batches", lambda s: change(s.second, batch=s.member.batch)),
    "a slot beside the rhythm": ("rhythm", off_rhythm),
    "a slot without a task": ("missed-slots", lambda s: change(s.slots[0], schedule_id=None, slot=None)),
    "a last slot without a task": ("missed-slots", lambda s: change(s.slots[2], schedule_id=None, slot=None)),
}


@pytest.mark.parametrize("doctored", ON_TOP)
def test_a_broken_promise_of_what_stands_on_top_is_found_out(doctored, database, travel, settings):
    settings.TASKS = with_lanes(settings.TASKS, {"tests.tasks.one": {"concurrency": 1}})
    scene = Scene(travel)
    assert found_rules() == (0, set(), set())
    rule, doctor = ON_TOP[doctored]
    with unguarded(database):
        doctor(scene)
        code, rules, _told = found_rules()
    assert (code, rules) == (1, {rule})


def test_a_claim_that_a_frozen_server_ran_after_an_end_that_arrived_later_is_no_breach(database, travel):
    """It is dated by its arrival; the order of events tells what it saw."""
    first = Task.objects.enqueue(tasks.noop)
    Tasks().run_due()
    second = Task.objects.enqueue(tasks.noop, eta=clock.now("default") - timedelta(hours=1))
    Tasks().run_due()
    with unguarded(database):
        change(second, follows_id=first.pk)
        change_event(second, "running", ts=event(first, "completed").ts - timedelta(seconds=30))
        assert found_rules() == (0, set(), set())


def test_every_rule_has_a_doctored_history():
    assert {rule for rule, _doctor in (*DOCTORED.values(), *ON_TOP.values())} == set(RULES)


def test_workflows_of_all_kinds_are_sound(database, travel):
    """Members in the lane of their parent, members that add members, callbacks, and retries that resume."""
    kit = Tasks()
    Task.objects.enqueue(workflows.settle, [1, [5, [6, 7]]])
    Task.objects.enqueue(workflows.settle, [1, [8]])
    Task.objects.enqueue(workflows.grow, [3])
    calls = [call(workflows.fragile, number) for number in (1, -2)]
    failed = Task.objects.enqueue_many(calls, then=call(workflows.publish, "news"))[1]
    resumed = Task.objects.enqueue(workflows.gather_and_fail, [[1, 2]])
    Task.objects.enqueue(workflows.fan_out, [[1, -1]], kwargs={"errors": "return", "fail_fast": True})
    kit.run_due()
    Task.objects.get(pk=failed.pk).retry()
    Task.objects.get(pk=resumed.pk).retry(resume=True)
    kit.run_due()
    assert Task.objects.filter(retry_of=resumed.pk, attempts__gt=0).exists()
    assert found_rules("--all") == (0, set(), set())


def test_slots_that_an_event_explains_are_no_breach(database, travel):
    """Missed while no worker ticked, skipped behind a run, left out during a pause, and off the old rhythm."""
    plan(queue="emails", every=timedelta(minutes=1))
    travel(60 * 3 + 1)
    assert tick().enqueued == 1
    travel(60)
    assert tick().enqueued == 0
    schedule = Schedule.objects.get()
    schedule.pause()
    travel(60 * 5)
    schedule.resume()
    Task.objects.filter(schedule=schedule).get().cancel()
    travel(61)
    assert tick().enqueued == 1
    schedule.change(every=timedelta(minutes=7))
    assert found_rules() == (0, set(), set())


def test_members_that_may_have_been_pruned_are_not_missed(database, travel, settings):
    Task.objects.enqueue(workflows.node, [{"op": "sum", "of": [1, 2, 3]}])
    Tasks().run_due()
    with unguarded(database):
        Task.objects.filter(batch__isnull=False).first().delete()
        assert "batches" in found_rules()[1]
        travel(settings.TASKS["default"].get("OPTIONS", {}).get("KEEP_SUCCESS", 14 * 86400) + 1)
        assert "batches" not in found_rules("--all")[1]
