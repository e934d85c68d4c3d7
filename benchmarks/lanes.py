"""Lanes: what a claim costs with keys beside one without, in turns on one server. `python -m benchmarks.lanes`.

Each round claims and completes batches of 100: of tasks without a lane, of 1, 100 and 10,000 unlimited lanes, and of
100 limited ones. The median of the rounds is told, in microseconds a task.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import django

BATCH, BATCHES, ROUNDS = 100, 10, 5
KEYS = {"no lane": 0, "1 lane": 1, "100 lanes": 100, "10,000 lanes": 10_000}


def main() -> None:
    from .server import Server

    with Server() as server:
        os.environ["BENCHMARK_DATABASE"] = server.url("postgres")
        os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"
        sys.path.insert(0, str(Path(__file__).parent / "contenders"))
        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        tell(measure())


def measure() -> dict[str, list[float]]:
    spent: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for name, keys in KEYS.items():
            spent.setdefault(name, []).append(round_of(f"{name}-{{}}", keys))
        spent.setdefault("100 limited lanes", []).append(round_of("limited-{}", 100))
    return spent


def round_of(template: str, keys: int) -> float:
    """Microseconds a task, of draining what was enqueued. What is left over is cancelled."""
    from benchmarks import tasks
    from django_tasks_retry import taskqueue
    from django_tasks_retry.models import Task

    count = max(BATCH * BATCHES, keys)
    names: Iterable[str] = (template.format(n % keys) if keys else "" for n in range(count))
    taskqueue.enqueue_many(taskqueue.Request(tasks.noop, lane=name) for name in names)
    lanes, done = taskqueue.Lanes(), 0
    began = time.perf_counter()
    while done < BATCH * BATCHES:
        leases = taskqueue.claim("worker/1", limit=BATCH, lanes=lanes)
        taskqueue.finish([taskqueue.Completed(lease) for lease in leases])
        done += len(leases)
    took = (time.perf_counter() - began) / done * 1e6
    for page in range(0, count, 2000):
        left = Task.objects.unfinished().values_list("pk", flat=True)[:2000]
        taskqueue.cancel(list(left)) if left else page
    return took


def tell(spent: dict[str, list[float]]) -> None:
    base: Any = statistics.median(spent["no lane"])
    for name, values in spent.items():
        median = statistics.median(values)
        print(f"{name:>18}: {median:7.0f} µs a task, {median / base:5.2f} times")


if __name__ == "__main__":
    main()
