"""A task that leaves its process unable to work costs itself alone: its neighbours run to their end, or anew."""

from __future__ import annotations

import time

import pytest

from django_tasks_retry.models import Task

from . import tasks
from .harness import WorkerProcess, event_of, story, wait_for, wait_until_finished


def spent(task: Task) -> int:
    return task.attempts - task.refunds


def wait_until_settled(worker: WorkerProcess) -> None:
    """Return once no child was replaced for a second. One that cannot hear its supervisor ends well within that."""
    seen, since = worker.children(), time.monotonic()

    def has_settled() -> bool:
        nonlocal seen, since
        if (now := worker.children()) != seen:
            seen, since = now, time.monotonic()
        return time.monotonic() - since > 1

    wait_for(has_settled, "children that stay")


@pytest.mark.parametrize("how", tasks.CRIPPLES)
def test_a_task_that_cripples_its_process_costs_its_neighbours_no_attempt(start, effects, how):
    neighbours = [Task.objects.enqueue(tasks.wait_at, [name], max_attempts=1) for name in "ab"]
    worker = start("--threads", "4", lease=4.0)
    for name in "ab":
        effects.wait_for(f"begin {name}")
    culprit = Task.objects.enqueue(tasks.cripple, [how])
    effects.wait_for("cripple")
    canary = wait_until_finished(Task.objects.enqueue(tasks.canary))
    assert canary.status == "SUCCESS"
    wait_until_settled(worker)
    for name in "ab":
        tasks.gate(name).touch()
    for neighbour in map(wait_until_finished, neighbours):
        assert (neighbour.status, spent(neighbour)) == ("SUCCESS", 1)
    wait_until_finished(culprit)  # recorded if its process still could, else of what died with it


def test_a_task_that_raises_for_want_of_what_a_neighbour_took_is_excused(start):
    culprit, neighbour = Task.objects.enqueue(tasks.take_all_files), Task.objects.enqueue(tasks.open_a_file)
    start("--threads", "2")
    neighbour = wait_until_finished(neighbour)
    assert (neighbour.status, spent(neighbour)) == ("SUCCESS", 1)
    assert "a neighbour may have caused it" in event_of(neighbour, "released").data["reason"]
    wait_until_finished(culprit)


def test_tasks_whose_process_died_twice_run_alone_and_what_kills_that_too_ends(start, effects):
    """Which of them it was cannot be told before; one that crashes for ever must come to its end."""
    culprit = Task.objects.enqueue(tasks.wait_and_die, ["a"], max_attempts=1)
    neighbour = Task.objects.enqueue(tasks.wait_at, ["b"], max_attempts=1)
    start("--threads", "2")
    for times in (1, 2):
        effects.wait_for("begin b", times)
        effects.wait_for("begin a", times)
        tasks.gate(f"a{times}").touch()
    wait_for(lambda: effects.count("begin a") + effects.count("begin b") > 4, "one that runs alone")
    for name in ("b", "a3"):  # one after the other: beside one process there is one place for a task alone
        tasks.gate(name).touch()
    assert wait_until_finished(culprit).last_error["code"] == "CRASHED"
    neighbour = wait_until_finished(neighbour)
    assert (neighbour.status, story(neighbour)) == ("SUCCESS", ["running", "released"] * 2 + ["running", "completed"])
    assert "a neighbour may have caused it" in event_of(neighbour, "released").data["reason"]
    assert story(culprit) == ["running", "released"] * 2 + ["running", "failed"]


@pytest.mark.parametrize("how", ["no writes to files", "no new files for good"])
def test_a_culprit_that_comes_back_again_and_again_costs_its_neighbours_no_attempt(start, effects, how):
    neighbours = [Task.objects.enqueue(tasks.wait_at, [name], max_attempts=1) for name in "ab"]
    worker = start("--threads", "4", lease=4.0)
    for name in "ab":
        effects.wait_for(f"begin {name}")
    for times in range(1, 5):
        Task.objects.enqueue(tasks.cripple, [how], max_attempts=1)
        effects.wait_for("cripple", times)
    wait_until_settled(worker)
    for name in "ab":
        tasks.gate(name).touch()
    for neighbour in map(wait_until_finished, neighbours):
        assert (neighbour.status, spent(neighbour)) == ("SUCCESS", 1)
