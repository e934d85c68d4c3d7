"""Tasks that behave, or fail as tasks do."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import threading
import time
from typing import Any

from django_tasks_retry import retry
from django_tasks_retry.compat import task

from .marks import gate, mark, marked


@task
def canary(name: str = "canary") -> str:
    mark(name)
    return name


@task
def warn_and_fail() -> None:
    logging.getLogger("shop").warning("the end is near")
    raise ValueError("here it is")


@task
async def warn_and_fail_async() -> None:
    warn_and_fail.func()


@task
def tell_thread() -> None:
    mark("ran", "tell_thread", threading.get_ident())


@task
async def tell_task() -> None:
    running = asyncio.current_task()
    mark("ran", "tell_task", threading.get_ident(), running.get_name() if running else "")


@task
def wait_at(name: str) -> str:
    """Says that it has begun, waits until its gate is opened, and says that it has ended."""
    mark("begin", name)
    while not gate(name).exists():
        time.sleep(0.005)
    mark("end", name)
    return name


@task
async def await_at(name: str) -> str:
    mark("begin", name)
    while not gate(name).exists():
        await asyncio.sleep(0.005)
    mark("end", name)
    return name


@task
async def await_once() -> None:
    await asyncio.sleep(0)


@task
def say_pid() -> int:
    mark("pid", os.getpid())
    return os.getpid()


@task(takes_context=True)
def describe(context: Any) -> list[Any]:
    result = context.task_result
    return [context.attempt, result.attempts, result.status, result.task.name]


@task
def enqueue_another() -> str:
    return str(canary.enqueue("from within").id)


@task
async def aenqueue_another() -> str:
    return str((await canary.aenqueue("from within")).id)


@task
@retry(max_attempts=3, backoff=[0, 0])
def fail_twice() -> str:
    mark("try")
    if marked("try") < 3:
        raise ValueError("not yet\nFORGED LINE")
    return "third"


@task(takes_context=True)
@retry(max_attempts=3, backoff=[0, 0])
async def afail_twice(context: Any) -> int:
    if context.attempt < 3:
        raise ValueError("not yet")
    return len(context.task_result.errors)


@task(takes_context=True)
@retry(backoff=[0])
async def afail_once(context: Any) -> None:
    if context.attempt == 1:
        raise ValueError("not yet")


@task
@retry(max_attempts=1)
def fail_fifth() -> None:
    mark("tick")
    if marked("tick") >= 5:
        raise ValueError("fifth")


@task
@retry(max_attempts=1)
def start_program() -> int:
    program = subprocess.Popen(["sleep", "600"])
    program.terminate()
    return program.wait(20)
