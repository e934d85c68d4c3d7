"""Processes that die or freeze: what they held is done again, once, and soon."""

from __future__ import annotations

import os
import signal
import time

import pytest

from django_tasks_retry.models import Task, Worker
from django_tasks_retry.worker.child.process import OF_NEIGHBOUR

from . import tasks
from .harness import event_of, story, wait_for, wait_for_status, wait_until_finished


@pytest.mark.fault("worker_killed")
def test_the_task_of_a_killed_child_is_run_again_at_once(start, effects, record_property):
    task = Task.objects.enqueue(tasks.wait_at, ["a"])
    worker = start()
    effects.wait_for("begin a")
    [child] = worker.children()
    killed = time.monotonic()
    os.kill(child, signal.SIGKILL)
    report(record_property, "child killed, task run again after", effects.wait_for("begin a", times=2) - killed)
    tasks.gate("a").touch()
    task = wait_until_finished(task)
    assert (task.status, task.attempts, task.refunds) == ("SUCCESS", 2, 0)
    assert story(task) == ["running", "lease_lost", "running", "completed"]
    assert event_of(task, "lease_lost").data["cause"] == "its process was killed by SIGKILL"


@pytest.mark.fault("worker_killed")
def test_tasks_of_a_killed_worker_are_run_again_when_their_leases_end(start, effects, record_property):
    lease = 5.0
    task = Task.objects.enqueue(tasks.wait_at, ["a"])
    worker = start(lease=lease)
    effects.wait_for("begin a")
    [child] = worker.children()
    other = start("--no-listen")
    other.wait_until_up()
    killed = time.monotonic()
    worker.signal(signal.SIGKILL)
    wait_for(lambda: not alive(child), "the child's end with its supervisor")
    seconds = effects.wait_for("begin a", times=2) - killed
    report(record_property, f"worker killed (lease {lease:g} s), task run again after", seconds)
    tasks.gate("a").touch()
    task = wait_until_finished(task)
    assert (task.status, task.attempts) == ("SUCCESS", 2)
    assert story(task) == ["running", "lease_lost", "running", "completed"]


@pytest.mark.fault("frozen_past_the_lease")
def test_a_worker_frozen_past_its_lease_finishes_nothing(start, effects):
    task = Task.objects.enqueue(tasks.wait_at, ["a"])
    frozen = start(lease=1.0)
    effects.wait_for("begin a")
    frozen.freeze()
    other = start()
    effects.wait_for("begin a", times=2)
    tasks.gate("a").touch()
    task = wait_until_finished(task)
    told = story(task)
    frozen.signal_all(signal.SIGCONT)
    canaries = [Task.objects.enqueue(tasks.canary, [str(n)]) for n in range(20)]
    for canary in canaries:
        wait_until_finished(canary)
    frozen.signal(signal.SIGTERM)
    assert frozen.exit_code() == 0
    assert (task.status, story(task), task.outcome.attempts) == ("SUCCESS", told, 2)
    assert event_of(task, "completed").actor.startswith(other.row.pk)


@pytest.mark.fault("poison")
def test_a_task_that_kills_its_process_fails_and_holds_up_nobody(start, effects, record_property):
    worker = start()
    worker.wait_until_up()
    poison = [Task.objects.enqueue(tasks.poison) for _ in range(2)]
    longest = 0.0
    while Task.objects.unfinished().filter(pk__in=[task.pk for task in poison]).exists():
        enqueued = time.monotonic()
        canary = Task.objects.enqueue(tasks.canary)
        assert wait_until_finished(canary).status == "SUCCESS"
        longest = max(longest, time.monotonic() - enqueued)
    report(record_property, "longest wait of a canary beside a poisonous task", longest)
    for task in poison:
        task = wait_until_finished(task)
        # A death beside a neighbour is refunded, and yet counts as one: which of them are is a race.
        # So is whether it was claimed ahead of its turn, and given back by a child that the other one killed.
        given_back = task.events.filter(kind="task.released").exclude(data__reason__endswith=OF_NEIGHBOUR).count()
        assert (task.status, task.attempts - given_back) == ("FAILED", 3)
        assert task.outcome.error["code"] == "CRASHED"


def test_a_worker_that_is_replaced_gives_back_what_a_dead_child_held(start, effects):
    """The leases of a child that dies during the shutdown go back before the worker leaves."""
    task = Task.objects.enqueue(tasks.wait_at, ["a"])
    worker = start("--grace", "10m")
    effects.wait_for("begin a")
    [child] = worker.children()
    worker.signal(signal.SIGTERM)
    worker.wait_for_line("stopping")
    os.kill(child, signal.SIGKILL)
    assert worker.exit_code() == 0
    task = wait_for_status(task, "PENDING")
    assert story(task) == ["running", "lease_lost"]
    assert Worker.objects.get().stopped_at is not None


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def report(record_property, what: str, seconds: float) -> None:
    record_property(what, f"{seconds:.2f} s")
    print(f"{what} {seconds:.2f} s")  # noqa: T201 - figures for who runs with -rP
