"""The cost of a fleet of workers for one database: at rest, and for each task that arrives alone.

python -m benchmarks.fleet [--supervisors 8] [--children 16] [--tasks 40]
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from . import meter
from .contenders import OURS
from .drive import Asker, percentile, wait_until
from .measures import Bench
from .server import Server

COMMITS = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
UP = "SELECT count(*) FROM django_tasks_retry_worker WHERE stopped_at IS NULL"
SETTLE_SECONDS, REST_SECONDS, UNTOLD_SECONDS = 6.0, 15.0, 11.0


@dataclass(frozen=True)
class Reading:
    at: float
    commits: int
    server_cpu: float
    worker_cpu: float


class Fleet:
    def __init__(self, server: Server, url: str, pids: list[int]) -> None:
        self.server, self.url, self.pids = server, url, pids
        self.ask = Asker(url)

    def read(self) -> Reading:
        time.sleep(UNTOLD_SECONDS)  # a session that rests tells of its commits after ten
        return Reading(
            time.perf_counter(),
            self.ask(COMMITS),
            self.server.cpu() - self.ask.cpu(),
            sum(map(meter.cpu, self.pids)),
        )

    def at_rest(self) -> tuple[float, float, float]:
        """Commits, seconds of the server's CPU and of the workers', each per second."""
        first = self.read()
        time.sleep(REST_SECONDS)
        last = self.read()
        seconds = last.at - first.at
        return (
            (last.commits - first.commits) / seconds,
            (last.server_cpu - first.server_cpu) / seconds,
            (last.worker_cpu - first.worker_cpu) / seconds,
        )

    def lone_tasks(self, count: int) -> Iterator[tuple[str, float, str]]:
        """Yield the idle cost, the cost of each task above it, and how long it waited."""
        commits, server, worker = self.at_rest()
        yield "at rest: commits", commits, "/s"
        yield "at rest: server CPU", server * 100, "% of a core"
        yield "at rest: worker CPU", worker * 100, "% of a core"
        yield "sessions", self.ask(SESSIONS), ""
        stamps = Path(OURS.environment(self.url)["BENCHMARK_STAMPS"])
        stamps.parent.mkdir(parents=True, exist_ok=True)
        stamps.write_text("")
        first = self.read()
        returned = OURS.tell(self.url, "alone", count)
        wait_until(lambda: len(stamps.read_text().split()) == count)
        last = self.read()
        seconds = last.at - first.at
        yield "a lone task: commits", (last.commits - first.commits - commits * seconds) / count, ""
        yield "a lone task: server CPU", (last.server_cpu - first.server_cpu - server * seconds) / count * 1000, "ms"
        yield "a lone task: worker CPU", (last.worker_cpu - first.worker_cpu - worker * seconds) / count * 1000, "ms"
        began = sorted(float(line) for line in stamps.read_text().split())
        waited = sorted((start - end) * 1000 for end, start in zip(returned, began, strict=True))
        for percent in (50, 95):
            yield f"a lone task: pick-up, p{percent}", percentile(waited, percent), "ms"


def measure(supervisors: int, children: int, tasks: int) -> Iterator[tuple[str, float, str]]:
    with Server(max_connections=supervisors * (children * 3 + 4) + 20) as server, ExitStack() as stack:
        url = Bench(server).ready(OURS)
        pids = [stack.enter_context(OURS.working(url, children)) for _ in range(supervisors)]
        with closing(Asker(url)) as ask:
            wait_until(lambda: ask(UP) == supervisors)
        time.sleep(SETTLE_SECONDS)
        yield from Fleet(server, url, pids).lone_tasks(tasks)


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.fleet", description=__doc__)
    parser.add_argument("--supervisors", type=int, default=8)
    parser.add_argument("--children", type=int, default=16)
    parser.add_argument("--tasks", type=int, default=40)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that servers and workers end with us
    print(f"{given.supervisors} supervisors x {given.children} children, {given.tasks} tasks one by one")
    for name, value, unit in measure(given.supervisors, given.children, given.tasks):
        print(f"{name:32} {value:10.2f} {unit}", flush=True)


if __name__ == "__main__":
    main()
