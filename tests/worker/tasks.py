"""Tasks that behave, and tasks that misbehave in every way the tests could think of."""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.db import connections, transaction
from django.utils import timezone, translation

from django_tasks_retry import retry
from django_tasks_retry.compat import task, task_finished, task_started
from django_tasks_retry.errors import TaskCancelled, TaskTimeout
from tests.router import CurrentDatabase


def mark(*words: object) -> None:
    """One line, in one write: lines of many processes do not mix."""
    descriptor = os.open(os.environ["EFFECTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, (" ".join(str(word) for word in words) + "\n").encode())
    os.close(descriptor)


def marked(line: str) -> int:
    return Path(os.environ["EFFECTS"]).read_text().splitlines().count(line)


def gate(name: str) -> Path:
    return Path(os.environ["EFFECTS"] + f".{name}")


@task
def canary(name: str = "canary") -> str:
    mark(name)
    return name


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
async def block_the_loop() -> None:
    mark("blocked")
    time.sleep(600)


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


# Bad exits


@task
@retry(max_attempts=1)
def exit_at_once() -> None:
    os._exit(3)


@task
@retry(max_attempts=1)
def system_exit() -> None:
    sys.exit(3)


@task
@retry(max_attempts=1)
async def asystem_exit() -> None:
    sys.exit(3)


@task
@retry(max_attempts=1)
def interrupt() -> None:
    raise KeyboardInterrupt


@task
@retry(max_attempts=1)
async def ainterrupt() -> None:
    raise KeyboardInterrupt


@task
@retry(max_attempts=1)
async def cancel_itself() -> None:
    raise asyncio.CancelledError


@task
@retry(max_attempts=1)
def generator_exit() -> None:
    raise GeneratorExit


@task
@retry(max_attempts=1)
def segfault() -> None:
    ctypes.string_at(0)


@task
@retry(max_attempts=1)
def abort() -> None:
    os.abort()


@task
@retry(max_attempts=1)
def recurse(depth: int = 0) -> None:
    recurse.func(depth + 1)


@task
@retry(max_attempts=1)
def raise_text(text: str) -> None:
    """`text` is written with escapes, for what JSON arguments cannot hold."""
    raise ValueError(text.encode().decode("unicode_escape"))


@task
@retry(max_attempts=1)
def return_text(text: str) -> str:
    return text.encode().decode("unicode_escape")


@task
@retry(max_attempts=1)
def return_object() -> Any:
    return object()


@task
@retry(max_attempts=1)
def return_depth() -> Any:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    return nested


@task
@retry(max_attempts=1)
def raise_50_megabytes() -> None:
    raise ValueError("x" * 50_000_000)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


@task
@retry(max_attempts=1)
def raise_unspeakable() -> None:
    raise Unspeakable


@task
@retry(max_attempts=1)
def take_two(first: int, second: int) -> int:
    return first + second


@task
@retry(max_attempts=3)
def poison() -> None:
    mark("poison")
    os.kill(os.getpid(), signal.SIGKILL)


@task
@retry(max_attempts=3, backoff=[0, 0])
def die_once() -> str:
    mark("die")
    if marked("die") == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return "second life"


# Databases


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
    except Exception:
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
def speak_german() -> None:
    translation.activate("de")
    timezone.activate("Asia/Tokyo")


@task
@retry(max_attempts=1)
def start_program() -> int:
    program = subprocess.Popen(["sleep", "600"])
    program.terminate()
    return program.wait(20)


@task
@retry(max_attempts=1)
def say_language() -> list[str]:
    return [translation.get_language(), timezone.get_current_timezone_name()]


@task
@retry(max_attempts=1)
def use_database(name: str) -> list[Any]:
    """What it finds: rows that others left behind would show, and so would their settings."""
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


# Lineage, context, retries


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


@task
@retry(max_attempts=1)
def fail_fifth() -> None:
    mark("tick")
    if marked("tick") >= 5:
        raise ValueError("fifth")


@task
def grow(megabytes: int) -> None:
    mark("pid", os.getpid())
    hoard.append(bytearray(os.urandom(1024)) * 1024 * megabytes)


hoard: list[bytearray] = []


@task
def say_pid() -> int:
    mark("pid", os.getpid())
    return os.getpid()


@task
async def await_once() -> None:
    await asyncio.sleep(0)


def tell(signal: Any, task_result: Any, **_: Any) -> None:
    """A receiver that asks the database, as receivers do."""
    name = "task_started" if signal is task_started else "task_finished"
    mark("signal", name, task_result.task.name, task_result.status, not Group.objects.exists())


if "EXTRA_MODULE" in os.environ:
    import_module(os.environ["EXTRA_MODULE"])

if "TELL_SIGNALS" in os.environ:
    task_started.connect(tell)
    task_finished.connect(tell)
