"""A full disk under the database: the worker waits for room and goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from django_tasks_retry.models import Task
from tests.worker import tasks
from tests.worker.conftest import Start, starter
from tests.worker.harness import ROOT, story
from tests.worker.trouble import ALIAS, Server, answered, used_once, wait_until_all_finished

CAN_MOUNT = os.getuid() == 0 and shutil.which("unshare") and not subprocess.run(
    ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, check=False
).returncode  # fmt: skip
pytestmark = pytest.mark.skipif(not CAN_MOUNT, reason="only root may mount a small disk in a namespace of its own")


class SmallDisk(Server):
    """A server whose disk is in another process's namespace."""

    def __init__(self) -> None:
        command = ["unshare", "-m", sys.executable, "-m", "tests.faults.disk", "300"]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.cluster = self
        self.port = int(self.process.stdout.readline())

    def tell(self, command: str) -> None:
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline().strip() == "done"

    def is_up(self) -> bool:
        return self.process.poll() is None

    def remove(self) -> None:
        self.process.communicate(timeout=30)


@pytest.fixture
def small_disk(django_db_blocker) -> Iterator[SmallDisk]:
    with used_once(SmallDisk(), django_db_blocker) as server:
        yield server


@pytest.fixture
def start(small_disk: SmallDisk, tmp_path) -> Iterator[Start]:
    yield from starter(ALIAS, tmp_path, small_disk.place())


@pytest.mark.fault("disk_full")
def test_a_full_disk_is_waited_out(start, small_disk, effects):
    acknowledged = [Task.objects.enqueue(tasks.wait_at, ["a"])]
    worker = start()
    effects.wait_for("begin a")
    small_disk.tell("fill")
    acknowledged += enqueue_until_refused()
    tasks.gate("a").touch()
    effects.wait_for("end a")
    worker.wait_for_line("No space left|database unavailable")
    small_disk.tell("free")
    wait_until_all_finished()
    statuses = dict(Task.objects.values_list("pk", "status"))
    assert {statuses.get(task.pk) for task in acknowledged} == {"SUCCESS"}
    assert all(story(task).count("completed") == 1 for task in acknowledged)
    assert worker.process.poll() is None


def enqueue_until_refused() -> list[Task]:
    enqueued: list[Task] = []
    while more := answered(lambda: Task.objects.enqueue_many([(tasks.canary, ["x" * 60_000])] * 50)):
        enqueued += more
    return enqueued
