"""Attacks that live nowhere else. attacks.py lists all of them."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
from django.db import connections
from django.db.models import Sum

from django_tasks_retry.models import Task, TaskResult, TaskTotal
from tests.worker import tasks
from tests.worker.conftest import effects, start  # noqa: F401 - fixtures
from tests.worker.harness import story, wait_for, wait_until_finished

pytestmark = pytest.mark.long
PR_SET_CHILD_SUBREAPER = 36
QUEUES = {"postgresql": 10_000, "sqlite": 500}
"""SQLite is slow to claim from many."""
NOISE = [
    "cancelled:", "cancelled:zzz", "cancelled:" + "0" * 5000, "more:", "more:x", "more:-5:default", "test:", ":::",
    "more:99999999999999999999:default", "work:", "work:\u202e", "test:x", "nonsense", "work:" + "x" * 7000,
]  # fmt: skip


def test_each_task_finds_the_session_that_the_project_prepared(start, effects):  # noqa: F811
    enqueued = [Task.objects.enqueue(tasks.read_prepared_session) for _ in range(3)]
    start("--drain", "--threads", "1", variables={"WORKER_APPS": "tests.attacks.apps.PreparedSessions"}).exit_code()
    assert {wait_until_finished(task).status for task in enqueued} == {"SUCCESS"}
    found = set(TaskResult.objects.filter(task__in=enqueued).values_list("result", flat=True))
    assert found <= {"acme", "4321"}
    assert len(found) == 1


def test_a_worker_that_cannot_fork_waits_until_it_can(start, effects):  # noqa: F811
    worker = start(variables={"WORKER_APPS": "tests.attacks.apps.NoFork"})
    worker.wait_for_line("cannot fork a child")
    assert wait_until_finished(Task.objects.enqueue(tasks.canary)).status == "SUCCESS"
    assert worker.process.poll() is None


def zombies_of(pid: int) -> list[str]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    states = {child: Path(f"/proc/{child}/stat").read_text(encoding="utf-8").rpartition(")")[2] for child in listed}
    return [child for child, state in states.items() if state.split()[0] == "Z"]


def test_a_worker_that_is_given_orphans_leaves_no_zombie(start, effects):  # noqa: F811
    """As the first process of a container is."""
    worker = start(popen={"preexec_fn": lambda: ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)})
    for task in [Task.objects.enqueue(tasks.leave_an_orphan) for _ in range(5)]:
        wait_until_finished(task)
    effects.wait_for(f"orphan of {worker.pid}", times=5)
    wait_for(lambda: not zombies_of(worker.pid), "no zombies")


def test_a_message_forges_no_line_of_a_log(start, effects, tmp_path):  # noqa: F811
    task = Task.objects.enqueue(tasks.forge_a_line)
    worker = start("--drain", variables={"WORKER_LOG_FOLDER": str(tmp_path)})
    assert worker.exit_code() == 0
    written = worker.output + (tmp_path / "log").read_text(encoding="utf-8")
    assert str(task.pk)[:18] in written
    assert not [line for line in written.splitlines() if line.startswith("ERROR django_tasks_retry forged")]
    assert "\x1b" not in written


def test_forged_notifications_change_nothing(start, effects, committed):  # noqa: F811
    if connections[committed].vendor != "postgresql":
        pytest.skip("SQLite has no notifications")
    worker = start(lease=4.0)
    running = Task.objects.enqueue(tasks.wait_at, ["a"])
    effects.wait_for("begin a")
    with connections[committed].cursor() as cursor:
        for text in [f"cancelled:{running.pk}", *NOISE, *(f"work:q{n}" for n in range(500))]:
            cursor.execute("SELECT pg_notify('django_tasks_retry', %s)", [text])
    assert wait_until_finished(Task.objects.enqueue(tasks.canary)).status == "SUCCESS"
    tasks.gate("a").touch()
    assert (wait_until_finished(running).status, story(running)) == ("SUCCESS", ["running", "completed"])
    assert "ERROR" not in worker.output


def test_a_drain_of_many_queues_leaves_nothing_and_counts_all(start, effects, committed, settings):  # noqa: F811
    settings.TASKS = {"default": {**settings.TASKS["default"], "QUEUES": []}}
    queues = QUEUES[connections[committed].vendor]
    Task.objects.enqueue_many({"func": tasks.canary, "queue": f"tenant-{n % queues}"} for n in range(2 * queues))
    worker = start("--drain", "--processes", "2", "--threads", "8", queues=[])
    assert worker.exit_code(1200) == 0
    assert Task.objects.successful().count() == 2 * queues
    assert TaskTotal.objects.aggregate(sum=Sum("completed"))["sum"] == 2 * queues
