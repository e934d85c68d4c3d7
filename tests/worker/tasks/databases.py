"""Tasks that use the database, and what they leave there."""

from __future__ import annotations

import time
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.db import connections, transaction

from django_tasks_retry import retry
from django_tasks_retry.compat import task
from tests.router import CurrentDatabase

from .marks import gate, mark


def current() -> Any:
    return connections[CurrentDatabase.current]


@task
@retry(max_attempts=1)
def leave_transaction_open() -> None:
    transaction.set_autocommit(False, using=CurrentDatabase.current)
    Group.objects.create(name="left open")


@task
@retry(max_attempts=1)
def leave_transaction_broken() -> None:
    block = transaction.atomic(using=CurrentDatabase.current)
    block.__enter__()
    Group.objects.create(name="broken")
    try:
        current().cursor().execute("SELECT nonsense FROM nowhere")
    except Exception:  # noqa: BLE001 - swallowed, as users do
        mark("broken")


@task
@retry(max_attempts=1)
def leave_settings() -> None:
    with current().cursor() as cursor:
        cursor.execute("SET search_path TO nowhere")
        cursor.execute("SET statement_timeout TO '1ms'")


@task
@retry(max_attempts=1)
def leave_connection_closed() -> None:
    Group.objects.count()
    current().connection.close()


@task
@retry(max_attempts=1)
def use_database(name: str) -> list[Any]:
    """Its findings: rows that others left behind would show, and so would their settings."""
    found = sorted(Group.objects.values_list("name", flat=True))
    Group.objects.create(name=name)
    settings = ""
    if current().vendor == "postgresql":
        with current().cursor() as cursor:
            cursor.execute("SELECT current_setting('search_path') || ' ' || current_setting('statement_timeout')")
            settings = cursor.fetchone()[0]
    return [current().get_autocommit(), current().in_atomic_block, found, settings]


@task
@retry(max_attempts=1)
async def ause_database(name: str) -> int:
    await Group.objects.acreate(name=name)
    return await Group.objects.acount()


@task
@retry(max_attempts=1)
async def aleave_transaction_open() -> None:
    await sync_to_async(leave_transaction_open.func)()


@task
@retry(max_attempts=2, backoff=[0], atomic=True)
def write_atomically(name: str, then: str = "") -> Any:
    Group.objects.create(name=name)
    mark("wrote", name)
    if then == "fail":
        raise ValueError("after the write")
    if then == "object":
        return object()
    if then:
        while not gate(then).exists():
            time.sleep(0.005)
    return name


@task
@retry(max_attempts=1)
def write_at_length(name: str) -> str:
    """A transaction of its own, in which nobody else can write a task."""
    with transaction.atomic(using=CurrentDatabase.current):
        lock_tasks(current())
        return str(write_atomically.func(name, name))


def lock_tasks(connection: Any) -> None:
    """On SQLite whoever is in a transaction has the write lock."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("LOCK TABLE django_tasks_retry_task IN ACCESS EXCLUSIVE MODE")


@task
def change_tenant(name: str) -> str:
    """Without changing back. Its findings."""
    found: str = current().tenant
    current().set_tenant(name)
    with current().cursor() as cursor:
        cursor.execute("SELECT 1")
    return found


@task
async def achange_tenant(name: str) -> str:
    return await sync_to_async(change_tenant.func)(name)


@task
@retry(atomic=True)
def fail_after_commit(name: str) -> None:
    Group.objects.create(name=name)
    transaction.on_commit(fail_in_hook, using=CurrentDatabase.current)


def fail_in_hook() -> None:
    raise RuntimeError("the hook failed")
