from __future__ import annotations

import pytest

from django_tasks_retry.models import Task

from . import tasks
from .harness import wait_until_finished

MARKING = "tests.worker.marking.Marking"


def test_middleware_runs_where_the_function_does_and_at_each_turn_of_the_workers_life(start, effects):
    for function in (tasks.tell_thread, tasks.tell_task):
        Task.objects.enqueue(function)
    worker = start("--drain", middleware=[MARKING])
    assert worker.exit_code() == 0
    lines = effects.lines()
    for name in ("tell_thread", "tell_task"):
        [around] = [line.split()[2:] for line in lines if line.startswith(f"around {name}")]
        [ran] = [line.split()[2:] for line in lines if line.startswith(f"ran {name}")]
        assert around == ran
        assert f"left {name} SUCCESS" in lines
    turns = [line.split() for line in lines if "start" in line or "ending" in line]
    assert [" ".join(words[:2]) for words in turns] == ["worker started", "child started", "child ending"]
    assert turns[0][3] == str(worker.pid)
    assert turns[1][2:] == turns[2][2:]
    assert turns[1][2].startswith(turns[0][2])


@pytest.mark.fault("F226")
def test_middleware_that_hangs_is_bounded_by_the_timeout_of_the_attempt(start, effects):
    task = Task.objects.enqueue(tasks.canary, max_attempts=1, timeout=0.5)
    start("--drain", middleware=[MARKING, "tests.worker.marking.Slow"])
    assert wait_until_finished(task).last_error["code"] == "TIMEOUT"
    assert "left canary None" in effects.lines()
