"""Tasks that the tests of the backend enqueue."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.contrib.auth.models import Group
from django.db import connections, transaction

from django_tasks_retry import Abort, Snooze, retry
from django_tasks_retry.bridge import Context
from django_tasks_retry.compat import task
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import database
from tests.tasks import noop

SEEN: list[Any] = []
"""The things that tasks saw; emptied by the fixture `seen`."""


@task(takes_context=True)
def look(context: Context, *args: Any) -> None:
    SEEN.append(context)


@task(takes_context=True)
async def look_async(context: Context) -> None:
    await context.aprogress(1, 2, "half")
    SEEN.append((context, await context.alease_ok()))


@task(takes_context=True)
@retry(max_attempts=2)
def lose_then_report(context: Context) -> None:
    """Loses its lease while it runs, as a task does that was cancelled."""
    Task.objects.get(pk=context.task_result.id).cancel(by="tests")
    SEEN.append(context.lease_ok())
    context.progress(1)


@task(takes_context=True)
def report_in_transaction(context: Context) -> None:
    with transaction.atomic(using=database()):
        context.progress(1, 2)


@task(takes_context=True)
@retry(atomic=True)
def report_atomically(context: Context) -> None:
    context.progress(1, 2)


@task(takes_context=True)
def report(context: Context, done: Any, total: Any, note: Any) -> None:
    context.progress(done, total, note)


@task(takes_context=True)
def report_and_ask_elsewhere(context: Context) -> None:
    context.progress(1, 2, "half")
    with ThreadPoolExecutor(1) as elsewhere:
        SEEN.append(elsewhere.submit(progress_seen_by_operators, context.task_result.id).result())


def progress_seen_by_operators(task_id: str) -> Any:
    """In a thread, and so over another connection."""
    try:
        return Task.objects.get(pk=task_id).progress
    finally:
        connections[database()].close()


@task
def enqueue_another() -> str:
    return noop.enqueue().id


@task
async def enqueue_another_async() -> str:
    return (await noop.aenqueue()).id


@task
@retry(backoff=[10, 20])
def fail_twice(message: str) -> int:
    SEEN.append(message)
    if len(SEEN) < 3:
        raise ConnectionError(f"{message} {len(SEEN)}")
    return 42


@task
def snooze_once() -> None:
    SEEN.append("ran")
    if len(SEEN) == 1:
        raise Snooze(60)


@task
def abort() -> None:
    raise Abort("bad address")


@task
def return_bytes() -> Any:
    return {"when": object()}


def ask(exception: BaseException, task_result: Any) -> float | None:
    """A backoff function: ten seconds per error so far, and no third retry."""
    SEEN.append(task_result)
    return None if len(task_result.errors) == 3 else 10.0 * len(task_result.errors)


@task
@retry(max_attempts=9, backoff=ask)
def fail_as_asked() -> None:
    raise ConnectionError("down")


@task
def add_group(name: str) -> None:
    Group.objects.create(name=name)


@task
@retry(atomic=True)
def add_group_atomically(name: str) -> None:
    Group.objects.create(name=name)


@task
def get_or_add_group(name: str) -> None:
    Group.objects.get_or_create(name=name)


@task
@retry(max_attempts=1)
def add_group_and_fail(name: str) -> None:
    Group.objects.create(name=name)
    raise ValueError("after the effect")


@task
@retry(max_attempts=1)
def add_group_twice(name: str) -> None:
    Group.objects.create(name=name)
    Group.objects.create(name=name)


@task
@retry(max_attempts=1)
def ask_for_nowhere() -> None:
    with connections[database()].cursor() as cursor:
        cursor.execute("SELECT * FROM nowhere")


@task
def add_group_on_commit(name: str) -> None:
    transaction.on_commit(lambda: SEEN.append(name))


@task
def interrupt() -> None:
    raise KeyboardInterrupt
