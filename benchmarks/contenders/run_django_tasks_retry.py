"""Ours: the enqueue that users call, the worker that they run, and the service layer by itself."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchmarks.settings")
CHUNK = 10_000
BATCH = 100
PAUSE = 0.05


def tell(value: Any) -> None:
    print(json.dumps(value))


def timed(enqueue: Callable[[], Any], times: int) -> None:
    began = time.perf_counter()
    for _ in range(times):
        enqueue()
    tell(time.perf_counter() - began)


def enqueue_one_by_one(count: int) -> None:
    from benchmarks import tasks

    timed(tasks.noop.enqueue, count)


def enqueue_at_once(count: int) -> None:
    from benchmarks import tasks
    from django_tasks_retry.models import Task

    size = min(CHUNK, count)
    timed(lambda: Task.objects.enqueue_many([(tasks.noop,)] * size), count // size)


def latency(count: int) -> None:
    from benchmarks import tasks

    returned = []
    for _ in range(count):
        time.sleep(PAUSE)
        tasks.stamp.enqueue()
        returned.append(time.monotonic())
    tell(returned)


def claims(count: int) -> None:
    """Milliseconds of each of so many claims, whose tasks are completed in between."""
    from django_tasks_retry import taskqueue

    lanes, spent = taskqueue.Lanes(), []
    for _ in range(count):
        began = time.perf_counter()
        leases = taskqueue.claim("worker/1", limit=BATCH, lanes=lanes)
        spent.append((time.perf_counter() - began) * 1000)
        taskqueue.finish([taskqueue.Completed(lease) for lease in leases])
    tell(spent)


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
    tell({verb: min(values) for verb, values in spent.items()})


VERBS = {
    "one": enqueue_one_by_one,
    "bulk": enqueue_at_once,
    "latency": latency,
    "claims": claims,
    "server_cost": server_cost,
}


def main(verb: str, number: int = 1) -> None:
    from django.core.management import execute_from_command_line

    if verb == "setup":
        execute_from_command_line(["django", "migrate", "-v", "0"])
    elif verb == "work":
        os.execv(sys.executable, [sys.executable, "-m", "django", "runworker", "--processes", str(number), "-v", "0"])
    else:
        import django

        django.setup()
        VERBS[verb](number)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
