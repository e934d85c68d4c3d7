"""Ours: the enqueue that users call, the worker that they run, and the service layer by itself."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import django
import verbs

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchmarks.settings")
CHUNK, LIST = 10_000, 1000
BATCH = 100


def enqueue_one_by_one(count: int) -> None:
    from benchmarks import tasks

    verbs.timed(tasks.noop.enqueue, count)


def enqueue_at_once(count: int) -> None:
    from benchmarks import tasks
    from django_tasks_retry.models import Task

    size = min(LIST, count)
    verbs.timed(lambda: Task.objects.enqueue_many([(tasks.noop, [n]) for n in range(size)]), count // size)


def fill(kind: str, count: int, queues: int) -> None:
    """Tasks of one kind, dealt out over so many queues."""
    from benchmarks import tasks
    from django_tasks_retry.models import Task

    args = ["x" * 1024] if kind == "payload" else []
    names = ["default", *(f"queue {number}" for number in range(1, queues))]
    for _ in range(0, count, CHUNK):
        size = min(CHUNK, count)
        calls = [{"func": getattr(tasks, kind), "args": args, "queue": names[n % queues]} for n in range(size)]
        Task.objects.enqueue_many(calls)


def real(count: int) -> None:
    import real_body

    from benchmarks import tasks
    from django_tasks_retry.models import Task

    real_body.create()
    Task.objects.enqueue_many({"func": tasks.real, "args": [n]} for n in range(count))


def request(count: int) -> None:
    """Milliseconds of so many enqueues, in transactions with another write; a thread writes 50 times a second."""
    import threading

    import real_body
    from django.db import transaction

    from benchmarks import tasks

    real_body.create()
    real_body.WAIT_SECONDS = 0.02
    threading.Thread(target=lambda: [real_body.run(n) for n in iter(int, 1)], daemon=True).start()
    spent = []
    for number in range(count):
        with transaction.atomic():
            real_body.Row.objects.filter(pk=number % real_body.ROWS + 1).update(number=number)
            began = time.perf_counter()
            tasks.noop.enqueue()
            spent.append((time.perf_counter() - began) * 1000)
        time.sleep(0.005)
    verbs.tell(spent)


def at_once(count: int) -> None:
    """So many tasks that note when they start; tells when they were enqueued."""
    from benchmarks import tasks
    from django_tasks_retry.models import Task

    Task.objects.enqueue_many([(tasks.stamp,)] * count)
    verbs.tell(time.monotonic())


def keyed(count: int, keys: int, prefix: str) -> None:
    """Tasks dealt out over so many lanes; without a lane if that is 0."""
    from benchmarks import tasks
    from django_tasks_retry import taskqueue

    names = (f"{prefix}-{n % keys}" if keys else "" for n in range(count))
    taskqueue.enqueue_many(taskqueue.EnqueueOptions(tasks.noop, lane=name) for name in names)


def lone(rounds: int) -> None:
    """One task in each of ten lanes, again and again."""
    from benchmarks import tasks
    from django_tasks_retry import taskqueue

    for _ in range(rounds):
        time.sleep(0.2)
        taskqueue.enqueue_many([taskqueue.EnqueueOptions(tasks.noop, lane=f"lone-{n}") for n in range(10)])


def looks(count: int, is_keyed: int) -> None:
    """Milliseconds of looks and of claims that follow them: from lanes, or of urgent tasks without one beside them."""
    from benchmarks import tasks
    from django_tasks_retry import taskqueue
    from django_tasks_retry.taskqueue.claim.tuning import TUNING
    from django_tasks_retry.taskqueue.engines import engine_for

    spent: dict[str, list[float]] = {"look": [], "claim of 100": []}
    memory = taskqueue.ClaimMemory(tuning=replace(TUNING, slow_seconds=float("inf")))
    engine = engine_for("default")
    if not is_keyed:
        taskqueue.enqueue_many([taskqueue.EnqueueOptions(tasks.noop, priority=5) for _ in range(count * BATCH)])
    for _ in range(count):
        began = time.perf_counter()
        memory.refresh(engine)
        looked = time.perf_counter()
        leases = taskqueue.claim("worker/1", limit=BATCH, memory=memory)
        spent["look"].append((looked - began) * 1000)
        spent["claim of 100"].append((time.perf_counter() - looked) * 1000)
        taskqueue.finish([taskqueue.Completed(lease) for lease in leases])
    verbs.tell(spent)


def stream(count: int) -> None:
    """So many rows of one call; the seconds, and by how many megabytes the process grew."""
    import resource

    from benchmarks import tasks
    from django_tasks_retry.models import Task

    Task.objects.enqueue_many(((tasks.noop,) for _ in range(CHUNK)), returning=False)
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    Task.objects.enqueue_many(((tasks.noop,) for _ in range(count)), returning=False)
    seconds = time.perf_counter() - began
    verbs.tell([seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024])


def latency(count: int) -> None:
    from benchmarks import tasks

    verbs.latency(tasks.stamp.using(priority=50).enqueue, count)


def alone(count: int) -> None:
    """Far enough apart for every worker to be at rest in between."""
    from benchmarks import tasks

    verbs.latency(tasks.stamp.enqueue, count, pause=0.4)


def claims(count: int) -> None:
    """Milliseconds of each of so many claims, whose tasks are completed in between."""
    from django_tasks_retry import taskqueue

    memory, spent = taskqueue.ClaimMemory(), []
    for _ in range(count):
        began = time.perf_counter()
        leases = taskqueue.claim("worker/1", limit=BATCH, memory=memory)
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

    memory = taskqueue.ClaimMemory()
    for _ in range(count):
        leases = read("claim", lambda: taskqueue.claim("worker/1", limit=BATCH, memory=memory))
        read("renew", lambda leases=leases: taskqueue.renew(leases))
        read("finish", lambda leases=leases: taskqueue.finish([taskqueue.Completed(lease) for lease in leases]))
    verbs.tell({verb: min(values) for verb, values in spent.items()})


def schedules(count: int) -> None:
    """So many that are due at one instant, a few seconds from now; tells the instant."""
    from datetime import UTC, datetime, timedelta

    from django_tasks_retry.models import Schedule

    due = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=8)
    common = {"func_path": "benchmarks.tasks.noop", "every": 86400.0, "timezone": "UTC"}
    common |= {"anchor": due, "next_at": due, "updated_at": due}
    Schedule.objects.bulk_create(Schedule(name=f"schedule {n}", **common) for n in range(count))
    verbs.tell(due.timestamp())


def enqueued_by(due: int) -> None:
    """How many tasks schedules have made, and the milliseconds from their instant to the last of them."""
    from django.db.models import Count, Max

    from django_tasks_retry.models import Task

    made = Task.objects.filter(schedule__isnull=False).aggregate(count=Count("id"), last=Max("created_at"))
    verbs.tell([made["count"], (made["last"].timestamp() - due) * 1000 if made["count"] else 0])


def setup() -> None:
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def work(processes: int, threads: int = 0) -> None:
    command = [sys.executable, "-m", "django", "runworker", "--processes", str(processes), "-v", "0"]
    os.execv(sys.executable, [*command, *(["--threads", str(threads)] if threads else [])])


if __name__ == "__main__":
    django.setup()
    verbs.main(
        {
            "setup": setup,
            "one": enqueue_one_by_one,
            "bulk": enqueue_at_once,
            "fill": fill,
            "real": real,
            "request": request,
            "at_once": at_once,
            "keyed": keyed,
            "lone": lone,
            "looks": looks,
            "stream": stream,
            "latency": latency,
            "alone": alone,
            "work": work,
            "claims": claims,
            "server_cost": server_cost,
            "schedules": schedules,
            "enqueued_by": enqueued_by,
        }
    )
