"""At each statement that a worker sends, something else may go wrong: it is asked to stop, or a process is killed.

A sample in an ordinary run; FAULTS=all tries every statement. Cuts of the connection: tests/worker/test_trouble.py.
"""

from __future__ import annotations

import os
import signal

import pytest

from django_tasks_retry.models import Task
from tests.worker import tasks
from tests.worker.harness import story, wait_for, wait_until_finished

POINTS = range(1, 31) if os.environ.get("FAULTS") == "all" else (6,)
LEASE = 2.0


def kill_child(worker, server) -> None:
    for pid in worker.children():
        os.kill(pid, signal.SIGKILL)


DEEDS = {
    "f01 its child is killed": kill_child,
    "f01 the worker is killed": lambda worker, server: worker.signal(signal.SIGKILL),
    "f11 it is asked to stop": lambda worker, server: worker.signal(signal.SIGTERM),
    "f12 it is told to stop at once": lambda worker, server: [worker.signal(signal.SIGTERM) for _ in range(2)],
    "f33 its backends are killed": lambda worker, server: server.end_backends(),
}


@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.replace(" ", "_"))
def test_at_any_statement_nothing_is_lost_or_finished_twice(start_behind, server, proxy, effects, deed):
    for nth in POINTS:
        proxy.statements = []
        enqueued = Task.objects.enqueue_many([tasks.canary, tasks.await_once] * 5)
        worker = start_behind("--processes", "1", lease=LEASE)
        wait_for(lambda nth=nth: len(proxy.statements) >= nth, f"statement {nth}")
        DEEDS[deed](worker, server)
        other = start_behind(lease=LEASE)
        for task in enqueued:
            assert wait_until_finished(task).status == "SUCCESS", (nth, story(task))
            assert story(task).count("completed") == 1, nth
        if deed.startswith("f11"):
            assert worker.exit_code() == 0, nth
            assert not Task.objects.filter(events__kind="task.lease_lost").exists(), nth
        worker.end()
        other.end()
