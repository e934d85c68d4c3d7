"""Middleware that marks where it runs, in a worker's processes."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

from django_tasks_retry.middleware import Attempt, Middleware

from .tasks.hostile import Workshop
from .tasks.marks import mark


class Marking(Middleware):
    @contextmanager
    def attempt(self, attempt: Attempt) -> Iterator[None]:
        name = attempt.func_path.rpartition(".")[2]
        mark("around", name, threading.get_ident(), task_name())
        try:
            yield
        finally:
            mark("left", name, attempt.ending.status if attempt.ending else None)

    def worker_started(self, worker_id: str) -> None:
        mark("worker started", worker_id, os.getpid())

    def child_started(self, worker_id: str) -> None:
        mark("child started", worker_id, os.getpid())

    def child_ending(self, worker_id: str) -> None:
        mark("child ending", worker_id, os.getpid())


class Ending(Middleware):
    """Marks the start and the end of a child, and what it does at exit."""

    def child_started(self, worker_id: str) -> None:
        atexit.register(mark, "ran at exit")
        mark("child started")

    def child_ending(self, worker_id: str) -> None:
        mark("child ending")


class HangingAtExit(Middleware):
    def child_started(self, worker_id: str) -> None:
        atexit.register(time.sleep, 3600)


class NewWorkshop(Middleware):
    """Makes the threads anew that did not survive the fork."""

    def child_started(self, worker_id: str) -> None:
        Workshop.threads = ThreadPoolExecutor(1)


class Slow(Middleware):
    """Does not come back before the attempt's time is over."""

    @contextmanager
    def attempt(self, attempt: Attempt) -> Iterator[None]:
        while True:
            pass
        yield


def task_name() -> str:
    with suppress(RuntimeError):
        task = asyncio.current_task()
        return task.get_name() if task else ""
    return ""
