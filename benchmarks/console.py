"""`python -m benchmarks.console [--rows N] [--load]`: what each page of the console costs, over many stored tasks."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .server import Server

GROUP = "feedfacecafe0001"
TASK_TABLES = ("django_tasks_retry_task", "django_tasks_retry_taskresult", "django_tasks_retry_taskevent")
PAGES = {
    "overview": "overview/",
    "tasks": "task/",
    "tasks, page 40": "task/?p=40",
    "failed": "task/?status=failed",
    "ready": "task/?status=ready",
    "scheduled": "task/?status=scheduled",
    "retrying": "task/?status=retrying",
    "success, one queue": "task/?status=success&queue=bulk",
    "error: search": "task/?q=error:MailServerDown",
    "failures": "failuregroup/",
    "failures, search": "failuregroup/?q=mail",
    "failure group of 5 %": f"failuregroup/{GROUP}/",
    "queues": "queue/",
    "workers": "worker/",
}
ATTEMPTS_A_MINUTE = 50_000
BATCH = 250


def main() -> None:
    given = arguments()
    if given.attempts:
        set_up()
        make_attempts()
        return
    with Server() as server:
        os.environ["TEST_POSTGRESQL"] = server.fresh("console")
        set_up()
        fill(given.rows)
        show("at rest")
        if given.load:
            with attempts():
                show("while tasks are being run")
        close()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--load", action="store_true", help="measure also while tasks are being run")
    parser.add_argument("--attempts", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def set_up() -> None:
    """The project of the tests, with all its models in the server's database."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    import django
    from django.conf import settings

    django.setup()
    from tests.router import CurrentDatabase

    CurrentDatabase.current = "postgresql"
    settings.ALLOWED_HOSTS = ["*"]


def fill(rows: int) -> None:
    """By SQL, without the guard, which would ask each task how it came to be."""
    from django.core.management import call_command
    from django.db import connections

    call_command("migrate", database="postgresql", verbosity=0)
    with connections["postgresql"].cursor() as cursor:
        for table in TASK_TABLES:
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        cursor.execute(Path(__file__).with_suffix(".sql").read_text(), {"rows": rows})
        for table in TASK_TABLES:
            cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
        cursor.execute("VACUUM ANALYZE")
    fill_statistics()


def fill_statistics() -> None:
    """A day of attempts, and a worker."""
    from datetime import timedelta

    from django_tasks_retry import clock, taskqueue
    from django_tasks_retry.models import TaskStat

    now = clock.now("postgresql").replace(second=0, microsecond=0)
    TaskStat.objects.bulk_create(
        TaskStat(
            minute=now - timedelta(minutes=n), queue=queue, func_path=f"shop.tasks.{queue}{f}", completed=90, failed=9
        )
        for n in range(1440)
        for queue in ("default", "emails", "bulk")
        for f in range(4)
    )
    known = [f"shop.tasks.{name}" for name in ("send_receipt", "charge_card", "sync_stock")]
    taskqueue.register_worker(
        "web-1", "default", host="web-1", pid=1, version="1", queues=["*"], exclude=[], tasks=known, processes=1,
        slots=108, threads=8,
    )  # fmt: skip


def show(title: str) -> None:
    """Each page twice; the second request is told."""
    from django.contrib.auth import get_user_model
    from django.test import Client

    users, client = get_user_model().objects, Client()
    client.force_login(users.filter(username="olga").first() or users.create_superuser("olga"))
    print(f"\n{title}\n{'page':24} {'ms':>7} {'SQL ms':>7} {'statements':>11} {'longest ms':>11}")
    for name, page in PAGES.items():
        get(client, page)
        taken, statements = get(client, page)
        longest = max(statements, default=0.0)
        print(f"{name:24} {taken:7.0f} {sum(statements):7.0f} {len(statements):11} {longest:11.1f}")


def get(client: Any, page: str) -> tuple[float, list[float]]:
    """Milliseconds of the whole request, and of each of its statements."""
    from django.db import connections

    statements: list[float] = []

    def timed(execute: Callable[..., Any], *statement: Any) -> Any:
        begun = time.perf_counter()
        try:
            return execute(*statement)
        finally:
            statements.append((time.perf_counter() - begun) * 1000)

    begun = time.perf_counter()
    with connections["postgresql"].execute_wrapper(timed):
        response = client.get(f"/admin/django_tasks_retry/{page}")
    assert response.status_code == 200, page
    return (time.perf_counter() - begun) * 1000, statements


@contextmanager
def attempts() -> Iterator[None]:
    """A process that runs tasks at an even pace."""
    from django_tasks_retry.models import TaskResult

    running = subprocess.Popen([sys.executable, "-m", "benchmarks.console", "--attempts"])
    try:
        time.sleep(5)
        begun, before = time.monotonic(), TaskResult.objects.count()
        yield
        done = (TaskResult.objects.count() - before) / (time.monotonic() - begun) * 60
        print(f"\n{done:,.0f} tasks finished a minute meanwhile")
    finally:
        running.terminate()
        running.wait()


def make_attempts() -> None:
    from django_tasks_retry import taskqueue
    from django_tasks_retry.models import Task
    from tests import tasks

    parent, pace = os.getppid(), BATCH / (ATTEMPTS_A_MINUTE / 60)
    due = time.monotonic()
    while os.getppid() == parent:
        Task.objects.enqueue_many([{"func": tasks.noop, "queue": "reports"}] * BATCH)
        leases = taskqueue.claim("web-2/1", ["reports"], BATCH)
        taskqueue.finish([outcome(taskqueue, lease, n) for n, lease in enumerate(leases)])
        due += pace
        time.sleep(max(0.0, due - time.monotonic()))


def outcome(taskqueue: Any, lease: Any, number: int) -> Any:
    """One in ten fails."""
    return taskqueue.Completed(lease) if number % 10 else taskqueue.Failed(lease, ConnectionError("lost"))


def close() -> None:
    from django.db import connections

    connections.close_all()


if __name__ == "__main__":
    main()
