"""A rolling deploy under load: workers of two releases side by side, exchanged one after another."""

from __future__ import annotations

import os
import signal
from collections import Counter
from itertools import count
from pathlib import Path

import pytest

from django_tasks_retry.models import Task, TaskEvent
from tests.worker.conftest import Start, effects, start  # noqa: F401 - fixtures
from tests.worker.harness import ROOT, WorkerProcess, wait_for

RELEASES = Path(__file__).with_name("releases")
WORKERS = 3


@pytest.fixture
def release(monkeypatch):
    """The new one: here, where tasks are enqueued, it is in use already."""
    monkeypatch.syspath_prepend(str(RELEASES / "new"))
    import rolling_release

    return rolling_release


def start_release(start: Start, name: str) -> WorkerProcess:  # noqa: F811
    path = f"{ROOT}{os.pathsep}{RELEASES / name}"
    worker = start(
        "--processes", "2", "--name", name, variables={"EXTRA_MODULE": "rolling_release", "PYTHONPATH": path}
    )
    worker.wait_until_up()
    return worker


@pytest.mark.fault("function_missing")
def test_a_rolling_deploy_under_load_loses_nothing_and_fails_nothing(start, effects, release):  # noqa: F811
    numbers = count()

    def flow(**politeness) -> None:
        calls = [(release.greet, [str(next(numbers))], politeness) for _ in range(30)]
        Task.objects.enqueue_many([*calls, *((release.welcome, [str(next(numbers))]) for _ in range(10))])

    old = [start_release(start, "old") for _ in range(WORKERS)]
    flow()
    for leaving in old:
        start_release(start, "new")
        flow()
        leaving.signal(signal.SIGTERM)
        flow()
        assert leaving.exit_code() == 0
        flow()
    flow(politely=True)
    wait_for(lambda: not Task.objects.unfinished().exists(), "all tasks done")
    assert set(Task.objects.values_list("status", flat=True)) == {"SUCCESS"}
    assert not TaskEvent.objects.filter(kind="task.failed").exists()
    assert Counter(line.split()[1] for line in effects.lines()) == Counter(str(n) for n in range(next(numbers)))
    assert releases_of(release.greet) == {"old", "new"}
    assert releases_of(release.welcome) == {"new"}


def releases_of(function) -> set[str]:
    """The releases of the workers that ran it."""
    claims = TaskEvent.objects.filter(task__func_path=function.module_path, kind="task.running")
    return {actor.partition("-")[0] for actor in claims.values_list("actor", flat=True)}
