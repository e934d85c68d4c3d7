"""Tasks that do not come to an end by themselves."""

from __future__ import annotations

import asyncio
import ctypes
import re
import time
from contextlib import suppress

from django.db import transaction

from django_tasks_retry import retry
from django_tasks_retry.compat import task
from django_tasks_retry.errors import TaskCancelled, TaskTimeout
from django_tasks_retry.models import Worker

from .marks import mark


@task
@retry(max_attempts=3, timeout=0.3, backoff=[0, 0])
def hang_in_c(seconds: float = 600) -> None:
    mark("hang")
    time.sleep(seconds)


@task
@retry(max_attempts=1, timeout=0.3)
def hold_the_interpreter() -> None:
    mark("hog")
    re.match(r"(a+)+$", "a" * 64 + "b")


@task
@retry(max_attempts=1, timeout=0.3)
def hold_the_database() -> None:
    """SQLite's only write lock: the supervisor cannot record the timeout while this process lives."""
    with transaction.atomic():
        Worker.objects.filter(pk="nobody").update(host="nowhere")
        hold_the_interpreter.func()


@task
@retry(max_attempts=1, timeout=0.3)
async def block_the_loop() -> None:
    mark("blocked")
    time.sleep(600)


@task
@retry(max_attempts=1, timeout=0.3)
async def swallow_interruptions() -> None:
    mark("swallow")
    while True:
        with suppress(BaseException):
            await asyncio.sleep(600)


@task
async def stop_the_loop() -> str:
    """It goes on at once, if the loop does."""
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0)
    return "still here"


@task
@retry(max_attempts=1, timeout=0.3)
def loop_for_ever() -> None:
    mark("loop")
    while True:
        time.sleep(0.005)


@task
@retry(max_attempts=1, timeout=0.3)
async def await_for_ever() -> None:
    mark("await")
    await asyncio.sleep(600)


@task
@retry(max_attempts=1, timeout=0.3)
async def await_in_a_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(600))


@task
@retry(max_attempts=1, timeout=0.3)
def tidy_up_after_timeout() -> str:
    try:
        while True:
            time.sleep(0.005)
    except TaskTimeout:
        return "tidied up"


@task
@retry(max_attempts=1, timeout=0.3)
async def atidy_up_after_timeout() -> str:
    try:
        await asyncio.sleep(600)
    except TaskTimeout:
        await asyncio.sleep(0.001)
    return "tidied up"


@task
def notice_cancel(name: str) -> str:
    mark("begin", name)
    try:
        while True:
            time.sleep(0.005)
    except TaskCancelled:
        mark("cancelled", name)
    return "an outcome that nobody wants"


@task
def suffer_cancel(name: str) -> None:
    mark("begin", name)
    try:
        while True:
            time.sleep(0.005)
    except TaskCancelled:
        mark("cancelled", name)
        raise


@task
async def anotice_cancel(name: str) -> str:
    mark("begin", name)
    try:
        await asyncio.sleep(600)
    except TaskCancelled:
        mark("cancelled", name)
    return "an outcome that nobody wants"


@task
def hold_on(seconds: float) -> None:
    """Holds the interpreter: no other thread of the process runs a line meanwhile."""
    mark("begin")
    ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))
    mark("end")
