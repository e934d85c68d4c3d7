"""`python -m benchmarks.workflows [--members N] [--steps N] [--waiting N]`: what workflows cost beside plain tasks.

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
CLAIMS = 50
SUSPEND = """
INSERT INTO django_tasks_retry_task (
    id, run_id, func_path, args, kwargs, queue, priority, backend, status, eta, attempts, max_attempts, refunds,
    timeout, interval, metadata, created_at, updated_at, waits_for
)
SELECT id, id, 'benchmarks.tasks.noop', '[]', '{}', 'default', 0, 'default', 'PENDING', now() + interval '10 years',
    1, 5, 1, 3600, 0, '{}', now(), now(), 'signal:' || id
FROM generate_series(1, %s) AS n
CROSS JOIN LATERAL (SELECT gen_random_uuid() AS id WHERE n > 0) AS made
"""
CONTENDERS = Path(__file__).parent / "contenders"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.workflows", description=__doc__)
    parser.add_argument("--members", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=2_000)
    parser.add_argument("--waiting", type=int, default=1_000_000, help="tasks that wait while others are claimed")
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
        claims_beside_waiting(given.waiting)
        if given.dbos:
            script = str(CONTENDERS / "dbos_steps.py")
            subprocess.run([given.dbos, script, server.fresh("dbos"), str(given.steps)], check=True)


def plain_against_batch(count: int) -> None:
    from django_tasks_retry import call
    from django_tasks_retry.models import Task, TaskEvent
    from django_tasks_retry.taskqueue.workflows.context import Results

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
    results = Results(woken.task_id, "default")
    tell(count, timed(lambda: sum(1 for _ in results)), "read all results, a thousand at a time")
    last = Task.objects.exclude(batch=None).order_by("-finished_at").values_list("finished_at", flat=True)[0]
    say(f"  the callback was due {(woken.ts - last).total_seconds() * 1000:.1f} ms after the last member had ended")


def finish(count: int) -> None:
    from django_tasks_retry import taskqueue
    from django_tasks_retry.taskqueue import ClaimMemory, Completed

    done, memory = 0, ClaimMemory(["*"])
    while done < count:
        leases = taskqueue.claim("bench", limit=min(SHARE, count - done), memory=memory)
        taskqueue.finish([Completed(lease) for lease in leases])
        done += len(leases)


def claims_beside_waiting(count: int) -> None:
    """The same claims, sweeps and signals, without and with a crowd that waits."""
    from django.db import connection

    from django_tasks_retry import signal
    from django_tasks_retry.models import Task
    from django_tasks_retry.taskqueue import Sweep

    from .tasks import noop

    sweep = Sweep()
    for waiting in (0, count):
        if waiting:
            suspend(waiting, connection)
        say(f"beside {waiting:,} tasks that wait")
        Task.objects.enqueue_many([noop_call(noop)] * (CLAIMS * SHARE))
        tell(CLAIMS * SHARE, timed(lambda: finish(CLAIMS * SHARE)), "claim and finish")
        tell(CLAIMS, timed(lambda: repeat(CLAIMS, lambda _: sweep())), "a sweep")
        tell(CLAIMS, timed(lambda: repeat(CLAIMS, lambda n: signal(f"bench {waiting} {n}"))), "a signal")  # noqa: B023


def noop_call(noop: Any) -> Any:
    from django_tasks_retry import call

    return call(noop)


def suspend(count: int, connection: Any) -> None:
    """Past the guard, which lets only a release say what a task waits for."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE django_tasks_retry_task DISABLE TRIGGER USER")
        cursor.execute(SUSPEND, [count])
        cursor.execute("ALTER TABLE django_tasks_retry_task ENABLE TRIGGER USER")
        cursor.execute("VACUUM ANALYZE django_tasks_retry_task")


def steps_against_tasks(count: int) -> None:
    from django_tasks_retry import taskqueue
    from django_tasks_retry.models import Task
    from django_tasks_retry.taskqueue.renewal import one_commit
    from django_tasks_retry.taskqueue.workflows.steps import StepKind, StepStore

    from .tasks import noop

    finish(1)
    Task.objects.enqueue(noop, timeout=3600)
    [lease] = taskqueue.claim("bench", lease=3600)
    steps = StepStore(lease)

    def atomic_step(number: int) -> None:
        with one_commit(lease):
            steps.save(f"atomic {number}", StepKind.STEP, number)

    say(f"{count:,} of each, one after the other, each with its own commit")
    tell(count, timed(lambda: repeat(count, lambda n: steps.save(f"step {n}", StepKind.STEP, n))), "a step")
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
