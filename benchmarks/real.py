"""Measures of ordinary work: tasks that use the database and wait, and enqueues beside other work."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

from . import meter
from .contenders import NO_QUEUE, Contender
from .drive import Asker, wait_until
from .measures import Bench, Figure
from .meter import Drained

DONE = "SELECT COALESCE(sum(number), 0) FROM real_row"


def real(bench: Bench) -> Iterator[Figure]:
    """Tasks of one SELECT, 5 ms of waiting and one UPDATE by the ORM; 16 at once in each of two processes."""
    for who in [NO_QUEUE, *bench.queues]:
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


ORDINARY = {measure.__name__: measure for measure in (real,)}
