"""Faults of processes that no other test shows."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from django_tasks_retry.models import Task
from tests.worker import tasks
from tests.worker.conftest import effects, start  # noqa: F401 - fixtures
from tests.worker.harness import place_of, wait_for, wait_until_finished

PROCESSES = 24


@pytest.mark.fault("poison")
@pytest.mark.parametrize("on", ["sqlite"], indirect=True)
def test_crashes_in_a_row_do_not_put_off_the_next_start_for_ever(start):  # noqa: F811
    worker = start("--processes", str(PROCESSES), "--threads", "1", "--async-slots", "1")
    wait_for(lambda: len(worker.children()) == PROCESSES, "all children")
    first = worker.children()
    for pid in first:
        os.kill(pid, signal.SIGKILL)
        time.sleep(0.4)  # the crashes come faster than the longest pause between starts
        if len(set(worker.children()) - set(first)) >= 10:
            return
    raise AssertionError("all children were dead before ten had been replaced")


@pytest.mark.fault("fork_with_an_open_connection")
@pytest.mark.parametrize("on", ["postgresql"], indirect=True)
def test_no_two_processes_share_a_connection(start, effects, committed):  # noqa: F811
    worker = start("--processes", "3", lease=2.0)
    wait_for(lambda: len(worker.children()) == 3, "all children")
    for name in ("a", "b", "c", "d"):
        wait_until_finished(Task.objects.enqueue(tasks.use_database, [name]))
    port = int(place_of(committed)["PORT"])
    connections = [sockets_to(port, pid) for pid in (worker.pid, *worker.children())]
    assert sum(map(len, connections)) == len(set().union(*connections)) > 3


def sockets_to(port: int, pid: int) -> set[str]:
    """The inodes of a process's sockets whose other end is at this port."""
    lines = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text(encoding="utf-8").splitlines()[1:]]
    there = {f"socket:[{line[9]}]" for line in lines if line[2].endswith(f":{port:04X}")}
    return {str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir()} & there
