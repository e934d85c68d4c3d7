"""Clocks that are wrong: a worker's decides nothing, and a jump of the server's loses nothing."""

from __future__ import annotations

import ast
import shutil
import subprocess
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import django_tasks_retry
from django_tasks_retry import clock
from django_tasks_retry.models import Task, TaskEvent
from tests.worker import tasks
from tests.worker.harness import story, wait_for, wait_until_finished
from tests.worker.trouble import ALIAS

LEASE = 2.0


@pytest.fixture(scope="module")
def shim(tmp_path_factory) -> Path:
    """A library that moves the wall clock of the process that loads it."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler, for the library that skews a clock: apt-get install gcc")
    library = tmp_path_factory.mktemp("skew") / "skew.so"
    source = Path(__file__).with_name("skew.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


def skewed(start, shim: Path, seconds: int):
    worker = start(variables={"LD_PRELOAD": str(shim), "SKEW_SECONDS": str(seconds)}, lease=LEASE)
    worker.wait_until_up()
    stamp = datetime.strptime(worker.wait_for_line(r"^\d\d:\d\d:\d\d")[0], "%H:%M:%S")
    now = datetime.now()
    hours = round(((stamp - datetime(1900, 1, 1, now.hour, now.minute)).total_seconds() / 3600 + 12) % 24 - 12)
    assert hours == seconds // 3600, "the shim works"
    return worker


@pytest.mark.fault("clock_skew")
def test_workers_an_hour_ahead_and_an_hour_behind_share_a_queue(start, effects, shim):
    workers = [skewed(start, shim, seconds) for seconds in (3600, -3600)]
    held = [Task.objects.enqueue(tasks.wait_at, [f"held{n}"]) for n in range(4)]
    for n in range(4):
        effects.wait_for(f"begin held{n}")
    expiries = dict(Task.objects.running().values_list("pk", "lock_expires_at"))
    wait_for(lambda: renewed_past(expiries, LEASE), "leases renewed for longer than they last")
    again = wait_until_finished(Task.objects.enqueue(tasks.fail_twice))
    for n in range(4):
        tasks.gate(f"held{n}").touch()
    for task in held:
        assert wait_until_finished(task).status == "SUCCESS"
        assert story(task) == ["running", "completed"]
    assert (again.status, again.attempts) == ("SUCCESS", 3)
    now = clock.now(ALIAS)
    assert all(abs(now - event.ts) < timedelta(minutes=10) for event in TaskEvent.objects.all())
    assert all(worker.process.poll() is None for worker in workers)


def renewed_past(expiries: dict, seconds: float) -> bool:
    now = dict(Task.objects.running().values_list("pk", "lock_expires_at"))
    return all(now[pk] - before > timedelta(seconds=seconds) for pk, before in expiries.items())


WALL_CLOCK = {("timezone", "now"), ("datetime", "now"), ("datetime", "utcnow"), ("date", "today"), ("time", "time")}


@pytest.mark.fault("clock_skew")
@pytest.mark.parametrize("room", ["taskqueue", "worker", "rules"])
def test_no_code_of_queue_or_worker_reads_the_wall_clock(room):
    files = list(Path(django_tasks_retry.__file__).parent.joinpath(room).rglob("*.py"))
    calls = [
        node.func
        for file in files
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
    ]
    named = {(getattr(call.value, "id", ""), call.attr) for call in calls if isinstance(call, ast.Attribute)}
    assert len(calls) > 50
    assert not named & WALL_CLOCK


@pytest.mark.fault("server_clock_jumps")
@pytest.mark.parametrize("jump", [3600, -3600], ids=["forward", "backward"])
def test_a_jump_of_the_servers_clock_loses_nothing(start, effects, jump):
    task = Task.objects.enqueue(tasks.wait_at, ["a"])
    start(lease=LEASE)
    effects.wait_for("begin a")
    clock.shift(timedelta(seconds=jump), ALIAS)
    try:
        if jump > 0:
            effects.wait_for("begin a", times=2)
        tasks.gate("a").touch()
        assert wait_until_finished(task).status == "SUCCESS"
        assert story(task).count("completed") == 1
    finally:
        clock.shift(timedelta(0), ALIAS)
