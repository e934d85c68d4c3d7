"""Threads with connections of their own, let loose by one barrier; and facts that are waited for with a deadline."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import connections, transaction

DEADLINE = float(os.environ.get("RACE_DEADLINE", "60"))


def with_own_connections(action: Callable[[], Any]) -> Callable[[], Any]:
    """Connections belong to a thread, so the thread that opened them closes them."""

    def run() -> Any:
        try:
            return action()
        finally:
            connections.close_all()

    return run


def together(*actions: Callable[[], Any]) -> list[Any]:
    """Start all actions at one instant; their answers in order. The first error is raised."""
    barrier = threading.Barrier(len(actions))

    def behind_barrier(action: Callable[[], Any]) -> Callable[[], Any]:
        def run() -> Any:
            for connection in connections.all():
                connection.ensure_connection()
            barrier.wait(DEADLINE)
            return action()

        return with_own_connections(run)

    with ThreadPoolExecutor(len(actions)) as pool:
        futures = [pool.submit(behind_barrier(action)) for action in actions]
        return [future.result(DEADLINE) for future in futures]


def beside(using: str, first: Callable[[], Any], second: Callable[[], Any]) -> tuple[Any, Any, bool]:
    """Run `second` while the transaction of `first` stays open, then commit. Also tells whether `second` waited."""
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic(using=using):
            answer = first()
            other = pool.submit(with_own_connections(second))
            wait_until(lambda: other.done() or somebody_waits(using), "the other to be done, or to wait")
            waited = not other.done()
        return answer, other.result(DEADLINE), waited


def somebody_waits(using: str) -> bool:
    with connections[using].cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted)")
        return bool(cursor.fetchone()[0])


def wait_until(fact: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE
    while not fact():
        assert time.monotonic() < deadline, f"waited {DEADLINE:g} s in vain: {what}"
        time.sleep(0.0005)
