"""`python -m benchmarks.workflows [--members N] [--steps N]`: what a batch and a step cost beside plain tasks.

One process claims and finishes, a hundred at a time, so that the figures are those of the statements.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .server import Server

SHARE = 100
CONTENDERS = Path(__file__).parent / "contenders"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.workflows", description=__doc__)
    parser.add_argument("--members", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=2_000)
    parser.add_argument("--dbos", metavar="PYTHON", help="an interpreter that has dbos, to measure its steps as well")
    given = parser.parse_args()
    sys.path.append(str(CONTENDERS))  # where benchmarks.tasks finds what it runs
    with Server() as server:
        os.environ |= {"BENCHMARK_DATABASE": server.fresh("workflows"), "DJANGO_SETTINGS_MODULE": "benchmarks.settings"}
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)
        plain_against_batch(given.members)
        steps_against_tasks(given.steps)
        if given.dbos:
            script = str(CONTENDERS / "dbos_steps.py")
            subprocess.run([given.dbos, script, server.fresh("dbos"), str(given.steps)], check=True)


def plain_against_batch(count: int) -> None:
    from django_tasks_retry import call
    from django_tasks_retry.models import Task, TaskEvent

    from .tasks import noop

    say(f"{count:,} plain tasks")
    tell(count, timed(lambda: Task.objects.enqueue_many([call(noop)] * count)), "enqueue")
    quarters = [timed(lambda: finish(count // 4)) for _ in range(4)]
    tell(count, sum(quarters), "claim and finish")
    say(f"{count:,} members of a batch with a callback")
    tell(count, timed(lambda: Task.objects.enqueue_many([call(noop)] * count, then=call(noop))), "enqueue")
    quarters = [timed(lambda: finish(count // 4)) for _ in range(4)]
    tell(count, sum(quarters), "claim and finish")
    say("  each quarter of them: " + ", ".join(f"{each:.1f} s" for each in quarters))
    woken = TaskEvent.objects.get(kind="task.rescheduled")
    last = Task.objects.exclude(batch=None).order_by("-finished_at").values_list("finished_at", flat=True)[0]
    say(f"  the callback was due {(woken.ts - last).total_seconds() * 1000:.1f} ms after the last member had ended")


def finish(count: int) -> None:
    from django_tasks_retry import taskqueue
    from django_tasks_retry.taskqueue import Completed, Lanes

    done, lanes = 0, Lanes(["*"])
    while done < count:
        leases = taskqueue.claim("bench", limit=min(SHARE, count - done), lanes=lanes)
        taskqueue.finish([Completed(lease) for lease in leases])
        done += len(leases)


def steps_against_tasks(count: int) -> None:
    from django_tasks_retry import taskqueue
    from django_tasks_retry.models import Task
    from django_tasks_retry.taskqueue.workflows.memory import Kind, Memory, one_commit

    from .tasks import noop

    finish(1)
    Task.objects.enqueue(noop, timeout=3600)
    [lease] = taskqueue.claim("bench", lease=3600)
    memory = Memory(lease)

    def atomic_step(number: int) -> None:
        with one_commit(lease):
            memory.remember(f"atomic {number}", Kind.STEP, number)

    say(f"{count:,} of each, one after the other, each with its own commit")
    tell(count, timed(lambda: repeat(count, lambda n: memory.remember(f"step {n}", Kind.STEP, n))), "a step")
    tell(count, timed(lambda: repeat(count, atomic_step)), "an atomic step")
    taskqueue.complete_task(lease)
    tell(count, timed(lambda: repeat(count, whole_task)), "a plain task: enqueue, claim, finish")


def whole_task(_: int) -> None:
    from django_tasks_retry.models import Task

    from .tasks import noop

    Task.objects.enqueue(noop)
    finish(1)


def repeat(count: int, act: Callable[[int], Any]) -> None:
    for number in range(count):
        act(number)


def timed(act: Callable[[], Any]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def tell(count: int, seconds: float, what: str) -> None:
    say(f"  {what:<40} {seconds:8.1f} s {seconds / count * 1e6:10.0f} µs each")


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
