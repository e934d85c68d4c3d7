"""Lets a contender work, and reads the meters around it."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from . import meter
from .contenders import Contender
from .meter import Drained
from .server import Server

POLL_SECONDS = 0.05
DEADLINE_SECONDS = 120.0


def drain(server: Server, who: Contender, url: str, *, processes: int) -> Drained:
    """From the first task that is final, or nearly, to the last one."""
    database = url.rpartition("/")[2]
    with who.working(url, processes) as pid, server.connect(database) as connection:

        def left() -> int:
            return int(connection.execute(who.left).fetchone()[0])  # type: ignore[index]

        there = left()
        wait_until(lambda: left() < there)
        began, first = time.perf_counter(), left()
        wal, server_cpu, worker_cpu = server.wal(), server.cpu(), meter.cpu(pid)
        wait_until(lambda: left() == 0)
        last = left()
        return Drained(
            tasks=first - last,
            seconds=time.perf_counter() - began,
            worker_cpu=meter.cpu(pid) - worker_cpu,
            server_cpu=server.cpu() - server_cpu,
            wal=server.wal() - wal,
            rss=meter.largest(pid),
        )


def wait_until(fact: object) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not fact():  # type: ignore[operator]
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
