"""Measures of ordinary work: tasks that use the database and wait, and enqueues beside other work."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path

from tests.pg import die_with_parent, free_port

from . import meter
from .contenders import BROKERS, NO_QUEUE, OURS, Contender
from .drive import Asker, percentile, wait_until
from .measures import Bench, Figure
from .meter import Drained

DONE = "SELECT COALESCE(sum(number), 0) FROM real_row"


def real(bench: Bench) -> Iterator[Figure]:
    """Tasks of one SELECT, 5 ms of waiting and one UPDATE by the ORM; 16 at once in each of two processes."""
    for who in [NO_QUEUE, OURS, *bench.peers]:
        with redis() if who in BROKERS else nullcontext():
            done = run_real(bench, who, bench.some(5_000))
        yield Figure("real", who.name, done.rate, "/s")
        yield Figure("real: worker CPU", who.name, done.worker_cpu / done.tasks * 1000, "s/1,000")
        yield Figure("real: server CPU", who.name, done.server_cpu / done.tasks * 1000, "s/1,000")


def run_real(bench: Bench, who: Contender, tasks: int, processes: int = 2, threads: int = 16) -> Drained:
    """Measure from a tenth of the tasks on, when every slot has run some, to the last."""
    url = bench.ready(who)
    who.tell(url, "real", tasks)
    with who.working(url, processes, threads) as pid, closing(Asker(url)) as ask:
        wait_until(lambda: ask(DONE) >= tasks // 10)
        began, first = time.perf_counter(), ask(DONE)
        wal, server_cpu, worker_cpu = bench.server.wal(), bench.server.cpu() - ask.cpu(), meter.cpu(pid)
        wait_until(lambda: ask(DONE) >= tasks)
        return Drained(
            tasks=ask(DONE) - first,
            seconds=time.perf_counter() - began,
            worker_cpu=meter.cpu(pid) - worker_cpu,
            server_cpu=bench.server.cpu() - ask.cpu() - server_cpu,
            wal=bench.server.wal() - wal,
            rss=meter.largest_child(pid),
        )


@contextmanager
def redis() -> Iterator[None]:
    """A Redis server that keeps nothing on disk, as fast as it goes; its address is in the environment."""
    port = free_port()
    command = ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, preexec_fn=die_with_parent)
    os.environ["BENCHMARK_REDIS"] = f"redis://127.0.0.1:{port}/0"
    try:
        yield
    finally:
        server.terminate()
        server.wait()


def request(bench: Bench) -> Iterator[Figure]:
    """Enqueue in a request's transaction, while others write 50 times a second."""
    spent = sorted(OURS.tell(bench.ready(OURS), "request", bench.some(2_000)))
    for percent in (50, 99):
        yield Figure(f"enqueue in a transaction, p{percent}", OURS.name, percentile(spent, percent), "ms")


def burst(bench: Bench) -> Iterator[Figure]:
    """A thousand tasks at once to workers at rest: until the last has started."""
    url, count = bench.ready(OURS), 1_000
    stamps = Path(OURS.environment(url)["BENCHMARK_STAMPS"])
    stamps.parent.mkdir(parents=True, exist_ok=True)
    stamps.write_text("")
    with OURS.working(url, 2, 16):
        OURS.tell(url, "at_once", 50)
        wait_until(lambda: len(stamps.read_text().split()) == 50)
        time.sleep(2)
        stamps.write_text("")
        enqueued = OURS.tell(url, "at_once", count)
        wait_until(lambda: len(stamps.read_text().split()) == count)
    last = max(map(float, stamps.read_text().split()))
    yield Figure("burst of 1,000: until the last starts", OURS.name, (last - enqueued) * 1000, "ms")


ORDINARY = {measure.__name__: measure for measure in (real, request, burst)}
