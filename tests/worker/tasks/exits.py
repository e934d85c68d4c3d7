"""Tasks that end as no task should."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
import threading
from typing import Any

from django_tasks_retry import retry
from django_tasks_retry.compat import task

from .marks import mark, marked


@task
@retry(max_attempts=1)
def exit_at_once() -> None:
    os._exit(3)


@task
@retry(max_attempts=1)
def raise_value_error() -> None:
    raise ValueError("no such order")


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
def raise_group() -> None:
    raise BaseExceptionGroup("several", [ValueError("first"), SystemExit("second")])


@task
@retry(max_attempts=1)
def raise_in_a_circle() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    raise first


class Unpicklable(Exception):
    def __init__(self) -> None:
        super().__init__("holds a lock")
        self.lock = threading.Lock()

    def __reduce__(self) -> Any:
        raise TypeError("not to be pickled")


@task
@retry(max_attempts=1)
def raise_unpicklable() -> None:
    raise Unpicklable


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
