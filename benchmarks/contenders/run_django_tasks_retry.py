"""Ours: the enqueue that users call, the worker that they run, and the service layer by itself."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import django
import verbs

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchmarks.settings")
CHUNK = 10_000
BATCH = 100


def enqueue_one_by_one(count: int) -> None:
    from benchmarks import tasks

    verbs.timed(tasks.noop.enqueue, count)


def enqueue_at_once(count: int) -> None:
    from benchmarks import tasks
    from django_tasks_retry.models import Task

    size = min(CHUNK, count)
    verbs.timed(lambda: Task.objects.enqueue_many([(tasks.noop,)] * size), count // size)


def latency(count: int) -> None:
    from benchmarks import tasks

    verbs.latency(tasks.stamp.enqueue, count)


def alone(count: int) -> None:
    """Far enough apart for every worker to be at rest in between."""
    from benchmarks import tasks

    verbs.latency(tasks.stamp.enqueue, count, pause=0.4)


def claims(count: int) -> None:
    """Milliseconds of each of so many claims, whose tasks are completed in between."""
    from django_tasks_retry import taskqueue

    lanes, spent = taskqueue.Lanes(), []
    for _ in range(count):
        began = time.perf_counter()
        leases = taskqueue.claim("worker/1", limit=BATCH, lanes=lanes)
        spent.append((time.perf_counter() - began) * 1000)
        taskqueue.finish([taskqueue.Completed(lease) for lease in leases])
    verbs.tell(spent)


def server_cost(count: int) -> None:
    """Microseconds of the server's CPU a task for each verb, at batches of 100: the least of several batches."""
    from django.db import connection

    from django_tasks_retry import taskqueue

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        backend = Path(f"/proc/{cursor.fetchone()[0]}/schedstat")
    spent: dict[str, list[float]] = {"claim": [], "renew": [], "finish": []}

    def read(verb: str, action: Callable[[], Any]) -> Any:
        before = int(backend.read_text().split()[0])
        answer = action()
        spent[verb].append((int(backend.read_text().split()[0]) - before) / 1000 / BATCH)
        return answer

    lanes = taskqueue.Lanes()
    for _ in range(count):
        leases = read("claim", lambda: taskqueue.claim("worker/1", limit=BATCH, lanes=lanes))
        read("renew", lambda leases=leases: taskqueue.renew(leases))
        read("finish", lambda leases=leases: taskqueue.finish([taskqueue.Completed(lease) for lease in leases]))
    verbs.tell({verb: min(values) for verb, values in spent.items()})


def setup() -> None:
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def work(processes: int) -> None:
    command = [sys.executable, "-m", "django", "runworker", "--processes", str(processes), "-v", "0"]
    os.execv(sys.executable, command)


if __name__ == "__main__":
    django.setup()
    verbs.main(
        {
            "setup": setup,
            "one": enqueue_one_by_one,
            "bulk": enqueue_at_once,
            "latency": latency,
            "alone": alone,
            "work": work,
            "claims": claims,
            "server_cost": server_cost,
        }
    )
