"""Faults of processes that no other test shows."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.worker.conftest import start  # noqa: F401 - a fixture
from tests.worker.harness import wait_for

PROCESSES = 24


@pytest.mark.parametrize("on", ["sqlite"], indirect=True)
def test_f17_crashes_in_a_row_do_not_put_off_the_next_start_for_ever(start):  # noqa: F811
    worker = start("--processes", str(PROCESSES), "--threads", "1", "--async-slots", "1")
    wait_for(lambda: len(worker.children()) == PROCESSES, "all children")
    first = worker.children()
    for pid in first:
        os.kill(pid, signal.SIGKILL)
        time.sleep(0.4)  # the crashes come faster than the longest pause between starts
        if len(set(worker.children()) - set(first)) >= 10:
            return
    raise AssertionError("all children were dead before ten had been replaced")
