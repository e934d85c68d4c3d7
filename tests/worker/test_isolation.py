"""A task whose process died twice in a row runs alone; if that dies too, it fails, and its event tells how."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace
from typing import Any

import pytest

from django_tasks_retry import registry, taskqueue
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue.claim import claim
from django_tasks_retry.worker.options import WorkerOptions
from django_tasks_retry.worker.shared.database import DatabaseCaller
from django_tasks_retry.worker.supervisor.pool import Isolation
from tests.steps import now_of

from . import tasks
from .harness import event_of, story, wait_for, wait_until_finished


@pytest.mark.fault("task_kills_every_process")
def test_a_task_that_kills_its_process_and_then_one_of_its_own_fails_with_what_is_known(start, effects):
    poison = Task.objects.enqueue(tasks.poison, max_attempts=10)
    canary = Task.objects.enqueue(tasks.canary, max_attempts=10)
    assert start("--drain", "--threads", "1").exit_code() == 0
    poison, canary = Task.objects.get(pk=poison.pk), Task.objects.get(pk=canary.pk)
    assert (poison.status, poison.attempts, poison.last_error["code"]) == ("FAILED", 3, "CRASHED")
    assert story(poison) == ["running", "lease_lost"] * 2 + ["running", "failed"]
    process = event_of(poison, "failed").data["process"]
    assert (process["signal"] is None) != (process["exit_code"] is None)
    assert process["peak_memory"] > 1_000_000
    assert event_of(poison, "lease_lost").data["process"].keys() == process.keys()
    assert canary.status == "SUCCESS"


@pytest.mark.fault("neighbours_that_kill_their_process")
def test_an_innocent_one_that_was_there_twice_finishes_alone_and_the_pool_goes_on(start, effects):
    innocent = Task.objects.enqueue(tasks.wait_at, ["a"], max_attempts=10)
    worker = start()
    for times in (1, 2):
        effects.wait_for("begin a", times=times)
        [child] = worker.children()
        os.kill(child, signal.SIGKILL)
    effects.wait_for("begin a", times=3)
    wait_for(lambda: len(worker.children()) == 2, "the child of its own, beside the others")
    assert wait_until_finished(Task.objects.enqueue(tasks.canary)).status == "SUCCESS"
    tasks.gate("a").touch()
    innocent = wait_until_finished(innocent)
    assert (innocent.status, innocent.crashes) == ("SUCCESS", 2)
    wait_for(lambda: len(worker.children()) == 1, "its child's end")


class Child:
    def __init__(self) -> None:
        self.inflight = SimpleNamespace(claims=0)


class Pool:
    """Whose children end when they are told to."""

    def __init__(self, places: int = 1) -> None:
        self.places = places
        self.children: list[Any] = []
        self.started: list[Task] = []

    def start_alone(self, task: Task) -> Any:
        self.started.append(task)
        self.children.append(Child())
        return self.children[-1]

    @property
    def has_place_alone(self) -> bool:
        return len(self.children) < self.places

    def end_child(self, *, claimed: bool) -> None:
        self.children.pop().inflight.claims = int(claimed)


@pytest.fixture
def pool() -> Pool:
    return Pool()


@pytest.fixture
def isolation(committed: str, pool: Pool) -> Isolation:
    return Isolation(WorkerOptions(), DatabaseCaller(committed, 60.0), pool)  # type: ignore[arg-type]


def make_poison(function: Any = tasks.canary, count: int = 1, arguments: Any = (), **given: Any) -> list[Task]:
    made = [Task.objects.enqueue(function, list(arguments), max_attempts=10, **given) for _ in range(count)]
    for _ in range(2):
        assert len(taskqueue.claim("boss/1", limit=count)) == count
        taskqueue.recover(dead="boss/1", actor="boss", crashed=True)
    return made


def look(isolation: Isolation) -> Any:
    isolation.looking.next = 0.0
    return isolation.tick()


def test_supervisors_do_not_all_start_a_process_for_the_same_task(isolation, pool):
    make_poison(count=20)
    for _ in range(20):
        assert look(isolation)
        pool.end_child(claimed=True)
    assert len({task.pk for task in pool.started}) > 1


def test_as_many_as_there_are_places_each_once_and_the_next_at_once(isolation, pool):
    pool.places = 3
    poison_tasks = make_poison(count=4)
    assert [bool(look(isolation)) for _ in range(4)] == [True, True, True, False]
    assert len({task.pk for task in pool.started}) == 3
    poisoned = {task.pk for task in poison_tasks}
    assert {task.pk for task in pool.started} < poisoned
    pool.end_child(claimed=True)
    assert isolation.tick()


@pytest.mark.parametrize(("processes", "alone"), [(1, 1), (3, 3), (16, 4)])
def test_a_few_of_many_processes_run_one_task_alone(processes, alone):
    assert WorkerOptions(processes=processes).alone == alone


@pytest.mark.fault("lone_tasks_that_cannot_run")
def test_a_poison_task_that_cannot_be_claimed_makes_no_storm_of_processes_and_holds_up_no_other(isolation, pool):
    """Its queue is paused, say, and there are many of its kind."""
    make_poison(tasks.canary, count=5)
    assert look(isolation)
    pool.end_child(claimed=False)
    assert isolation.tick() is None, "at once"
    assert look(isolation) is None, "set aside for a while"
    [other] = make_poison(tasks.await_once)
    assert look(isolation)
    assert pool.started[-1].pk == other.pk
    pool.end_child(claimed=True)
    isolation.set_aside = dict.fromkeys(isolation.set_aside, 0.0)
    assert look(isolation), "tried again"


@pytest.mark.fault("lone_tasks_that_cannot_run")
def test_poison_tasks_that_nobody_here_can_run_hide_none_behind_them(isolation, pool, monkeypatch):
    monkeypatch.setattr(claim, "POISON_PAGE", 2)
    find, unknown = registry.find, make_poison(tasks.canary, count=4)[0].func_path
    [known] = make_poison(tasks.await_once)
    monkeypatch.setattr(registry, "find", lambda path: None if path == unknown else find(path))
    looks = [look(isolation) for _ in range(3)]
    assert [bool(child) for child in looks] == [False, False, True]
    assert pool.started[0].pk == known.pk


@pytest.mark.fault("lone_tasks_that_cannot_run")
def test_a_drain_goes_on_for_a_poison_task_in_a_full_lane(start, effects):
    poison_tasks = make_poison(count=3, lane="stripe")
    ahead = Task.objects.enqueue(tasks.wait_at, ["a"], lane="stripe", priority=99)
    worker = start("--drain", lanes={"stripe": {"concurrency": 1}})
    effects.wait_for("begin a")
    wait_for(lambda: "runs alone" in worker.output, "a poison task that finds its lane full")
    tasks.gate("a").touch()
    assert worker.exit_code() == 0
    assert {now_of(task).status for task in [*poison_tasks, ahead]} == {"SUCCESS"}


@pytest.mark.fault("lone_tasks_that_cannot_run")
def test_a_drain_goes_on_for_tasks_behind_a_poison_task(start, effects):
    poison_tasks = make_poison(tasks.wait_at, arguments=["a"], lane="stripe")
    behind = Task.objects.enqueue_many([{"func": tasks.canary, "lane": "stripe"}] * 3)
    worker = start("--drain", lanes={"stripe": {"order": "strict"}})
    effects.wait_for("begin a")
    other = Task.objects.enqueue(tasks.canary)
    wait_for(lambda: now_of(other).finished_at or len(worker.children()) == 1, "an end of what may run beside it")
    tasks.gate("a").touch()
    assert worker.exit_code() == 0
    assert {now_of(task).status for task in [*poison_tasks, *behind]} == {"SUCCESS"}
