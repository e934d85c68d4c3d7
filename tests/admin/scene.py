"""A queue in the middle of its day: tasks in every status, workers, a paused queue, statistics."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django_tasks_retry import clock, registry, taskqueue
from django_tasks_retry.models import Schedule, Task, TaskStat, Worker
from django_tasks_retry.taskqueue.workflows import StepKind
from django_tasks_retry.taskqueue.workflows.effects import INTENT, question
from django_tasks_retry.taskqueue.workflows.members import signal_key
from django_tasks_retry.taskqueue.workflows.steps import StepStore
from tests.admin import shop

WORKERS = ("web-1-4711-a1b2c3", "web-2-815-d4e5f6")


def outcome_of(lease: Any) -> taskqueue.Outcome:
    """The status that running it leads to."""
    name = lease.func_path.rpartition(".")[2]
    try:
        result = getattr(shop, name).func(*lease.args, **lease.kwargs)
    except Exception as error:  # noqa: BLE001 - whatever it raises is its outcome
        return taskqueue.Failed(lease, error)
    return taskqueue.Completed(lease, result)


def enqueue(function: Any, *calls: list[Any], **options: Any) -> list[Task]:
    return Task.objects.enqueue_many([{"func": function, "args": call, **options} for call in calls])


def play(using: str) -> dict[str, Task]:
    """Two hours of a shop's life. Returns the tasks that tests and pictures look at, by name."""
    at = clock_of(using)
    at(-120)
    sign_on()
    orders = [[4711 + n, f"customer{n}@example.com"] for n in range(6)]
    receipts = enqueue(shop.send_receipt, *orders, kwargs={"api_token": "planted-secret"})
    rows = enqueue(shop.import_row, *([n] for n in range(9)), max_attempts=1)
    for minutes in (-119, -117, -111, -95, -34):
        run(WORKERS[0], limit=20, at=at, minutes=minutes)
    stocks = enqueue(shop.sync_stock, *([f"W{n}"] for n in range(30)))
    run(WORKERS[1], limit=40, at=at, minutes=-3)
    retrying = Task.objects.enqueue(shop.import_row, [77])
    run(WORKERS[1], limit=5, at=at, minutes=-0.9)
    at(-0.5)
    running = enqueue(shop.sync_stock, *([f"north {n}"] for n in range(3)))
    taskqueue.claim(f"{WORKERS[0]}/1", limit=2)
    taskqueue.claim(f"{WORKERS[1]}/1", limit=1)
    later = Task.objects.enqueue(shop.sync_stock, ["south"], eta=timedelta(hours=5))
    reports = enqueue(shop.monthly_report, *([f"2026-{n:02}"] for n in range(1, 4)))
    cancelled = Task.objects.enqueue(shop.resize_image, [1])
    cancelled.cancel(by="deploy script", reason="wrong image")
    waiting = enqueue(shop.send_receipt, *([9000 + n, "late@example.com"] for n in range(12)))
    at(0)
    taskqueue.pause("emails", by="on call", reason="mail provider is down, INC-204")
    Worker.objects.using(using).update(heartbeat_at=clock.now(using))
    statistics(using)
    plan()
    return {
        "failed": receipts[0], "import": rows[0], "success": stocks[0], "retrying": retrying, "running": running[0],
        "scheduled": later, "orphan": reports[0], "cancelled": cancelled, "paused": waiting[0],
    }  # fmt: skip


def waiting_for(name: str) -> Task:
    """A task that waits for a signal."""
    return suspended(begun(), name)


def asking_about(effect: str) -> Task:
    """A task that waits for a person to say whether an effect happened."""
    lease = begun()
    StepStore(lease).save(f"{effect}{INTENT}1", StepKind.INTENT, {"key": "order-1", "because": ""})
    return suspended(lease, question(lease.id, effect, 1))


def begun() -> taskqueue.Lease:
    task = Task.objects.enqueue(shop.sync_stock, ["west"])
    return next(lease for lease in taskqueue.claim(f"{WORKERS[0]}/1", limit=100) if lease.id == task.pk)


def suspended(lease: taskqueue.Lease, signal: str) -> Task:
    taskqueue.finish([taskqueue.Released(lease, "it waits", 3600.0, waits_for=signal_key(signal))])
    return Task.objects.get(pk=lease.id)


def plan() -> None:
    asked = {"args": ["north"], "timezone": "Europe/Berlin"}
    Schedule.objects.create(name="nightly", task=shop.sync_stock, cron="30 2 * * *", **asked)
    Schedule.objects.create(name="stock", task=shop.sync_stock, every=600, **asked).pause(by="on call", reason="INC")


def run(worker: str, limit: int, *, at: Callable[[float], None], minutes: float) -> None:
    """Everything that is due then; each attempt takes a while."""
    at(minutes)
    leases = taskqueue.claim(f"{worker}/1", limit=limit)
    at(minutes + 0.4)
    taskqueue.finish([outcome_of(lease) for lease in leases])


def clock_of(using: str) -> Callable[[float], None]:
    return lambda minutes: clock.shift(timedelta(minutes=minutes), using)


def sign_on() -> None:
    for n, worker in enumerate(WORKERS):
        taskqueue.register_worker(
            worker, "default", host=f"web-{n + 1}.example", pid=4711 + n, version="1.0", queues=["default", "emails"],
            exclude=[], tasks=registry.known_paths(), processes=2, slots=208, threads=8, running=0,
        )  # fmt: skip


def statistics(using: str) -> None:
    """An hour of attempts, with a bad quarter in it."""
    now = clock.now(using).replace(second=0, microsecond=0)
    TaskStat.objects.using(using).bulk_create(
        TaskStat(
            minute=now - timedelta(minutes=n),
            queue=queue,
            func_path=f"shop.{queue}",
            completed=int(base * (1.2 + math.sin(n / 6))) if not (queue == "emails" and n < 20) else 0,
            retried=int(base / 6) if queue == "emails" and 15 < n < 34 else n % 5 // 4,
            failed=int(base / 9) if queue == "emails" and 10 < n < 24 else 0,
            seconds=base / 10,
        )
        for n in range(60)
        for queue, base in (("default", 60), ("emails", 40), ("bulk", 14))
    )
