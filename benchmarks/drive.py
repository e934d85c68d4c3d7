"""Lets a contender work, and reads the meters around it."""

from __future__ import annotations

import sqlite3
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg

from . import meter
from .contenders import Contender
from .meter import Drained
from .server import Server

POLL_SECONDS = 0.05
DEADLINE_SECONDS = 120.0


def drain(server: Server, who: Contender, url: str, *, processes: int, threads: int | None = None) -> Drained:
    """From the first tasks that are final to the last one."""
    with who.working(url, processes, *([threads] if threads else [])) as pid, closing(Asker(url)) as ask:
        there = ask(who.left)
        wait_until(lambda: ask(who.left) < there)
        began, first = time.perf_counter(), ask(who.left)
        wal, server_cpu, worker_cpu = server.wal(), server.cpu() - ask.cpu(), meter.cpu(pid)
        wait_until(lambda: ask(who.any_left) == 0)
        return Drained(
            tasks=first - ask(who.left),
            seconds=time.perf_counter() - began,
            worker_cpu=meter.cpu(pid) - worker_cpu,
            server_cpu=server.cpu() - ask.cpu() - server_cpu,
            wal=server.wal() - wal,
            rss=meter.largest_child(pid),
        )


class Asker:
    """Asks a database for numbers over one connection, and knows what its own questions cost the server."""

    def __init__(self, url: str) -> None:
        self.connection: Any = (
            sqlite3.connect(urlsplit(url).path) if url.startswith("sqlite") else psycopg.connect(url, autocommit=True)
        )

    def __call__(self, question: str) -> int:
        return int(self.connection.execute(question).fetchone()[0])

    def cpu(self) -> float:
        postgresql = isinstance(self.connection, psycopg.Connection)
        return meter.cpu(self.connection.info.backend_pid) if postgresql else 0.0

    def close(self) -> None:
        self.connection.close()


def wait_until(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not fact():
        if time.monotonic() > deadline:
            return
        time.sleep(POLL_SECONDS)


def latencies(who: Contender, url: str, count: int) -> list[float]:
    """Milliseconds from the return of an enqueue to the start of its task, at a worker that waits; sorted."""
    stamps = Path(who.environment(url)["BENCHMARK_STAMPS"])
    stamps.parent.mkdir(parents=True, exist_ok=True)
    stamps.write_text("")
    with who.working(url, processes=1):
        who.tell(url, "latency", 5)
        wait_until(lambda: len(stamps.read_text().split()) == 5)
        stamps.write_text("")
        returned = who.tell(url, "latency", count)
        wait_until(lambda: len(stamps.read_text().split()) == count)
    began = [float(line) for line in stamps.read_text().split()]
    return sorted((start - end) * 1000 for end, start in zip(returned, sorted(began), strict=True))


def percentile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
