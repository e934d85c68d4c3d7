"""The cost of polls and claims with many queues, and with many claimers at one lane.

python -m benchmarks.contention [--queues 10,1000,10000] [--claimers 1,16,64]
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import threading
import time
from typing import Any

import django

from .contenders import OURS
from .measures import Bench
from .server import Server

BATCH, SECONDS, BACKLOG = 8, 8.0, 60_000
HITS = "SELECT blks_hit FROM pg_stat_database WHERE datname = current_database()"
MANY = """
INSERT INTO django_tasks_retry_task ({columns})
SELECT {values} FROM django_tasks_retry_task AS t CROSS JOIN generate_series(1, {count}) AS n
"""


def fill(server: Server, count: int, queue: str) -> None:
    """The one task that is there, so many times over; `queue` is an expression of n."""
    with server.connect("bench") as connection:
        names = connection.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = 'django_tasks_retry_task'::regclass "
            "AND attnum > 0 AND NOT attisdropped AND attgenerated = ''"
        ).fetchall()
        changed = {"id": "gen_random_uuid()", "run_id": "gen_random_uuid()", "queue": queue}
        values = ", ".join(changed.get(name, f"t.{name}") for (name,) in names)
        connection.execute("ALTER TABLE django_tasks_retry_task DISABLE TRIGGER USER")
        columns = ", ".join(name for (name,) in names)
        connection.execute(MANY.format(columns=columns, values=values, count=count))
        connection.execute("ALTER TABLE django_tasks_retry_task ENABLE TRIGGER USER")
        connection.execute("VACUUM ANALYZE")


def ready(server: Server, count: int, queue: str) -> None:
    OURS.tell(Bench(server).ready(OURS), "one", 1)
    fill(server, count, queue)


def many_queues(server: Server, queues: int) -> None:
    from django_tasks_retry import taskqueue

    ready(server, queues * 5, f"'tenant-' || n % {queues}")
    looks, claims = [], []
    for _ in range(20):
        memory = taskqueue.ClaimMemory()
        began = time.perf_counter()
        taskqueue.is_work_due(memory)
        looked = time.perf_counter()
        taskqueue.claim("bench/1", limit=BATCH, memory=memory)
        looks.append(looked - began)
        claims.append(time.perf_counter() - looked)
    look, claim = (statistics.median(each) * 1000 for each in (looks, claims))
    print(f"{queues:7,} queues: look {look:6.2f} ms, claim of {BATCH} {claim:6.2f} ms", flush=True)


def one_lane(server: Server, claimers: int) -> None:
    """Tasks as they are enqueued: what is claimed together lies together."""
    Bench(server).ready(OURS, BACKLOG)
    with server.connect("bench") as connection:
        connection.execute("VACUUM ANALYZE")
    crew = Crew(claimers)
    for thread in crew.threads:
        thread.start()
    crew.warm.wait()
    before, cpu = server.ask("bench", HITS), server.cpu()
    crew.end = time.monotonic() + SECONDS
    crew.begin.wait()
    for thread in crew.threads:
        thread.join()
    cpu, hits, rows = server.cpu() - cpu, server.ask("bench", HITS) - before, sum(crew.taken)
    away = sum(crew.turned_away) * BATCH / rows
    print(
        f"{claimers:3} claimers: {rows / SECONDS:7,.0f} rows/s, {hits / rows:5.1f} buffers and "
        f"{cpu / rows * 1_000_000:4.0f} µs of server CPU a row; turned away {away:.2f} times a claim",
        flush=True,
    )


class Crew:
    """Claimers that begin together once each of them knows the database: what a new session reads is left out."""

    def __init__(self, claimers: int) -> None:
        self.taken, self.turned_away = [0] * claimers, [0] * claimers
        self.warm, self.begin = threading.Barrier(claimers + 1), threading.Barrier(claimers + 1)
        self.end = 0.0
        self.threads = [threading.Thread(target=self.keep_claiming, args=(number,)) for number in range(claimers)]

    def keep_claiming(self, number: int) -> None:
        from django.db import connection

        from django_tasks_retry import taskqueue

        memory: Any = taskqueue.ClaimMemory()
        for _ in range(3):
            taskqueue.claim(f"bench/{number}", limit=BATCH, memory=memory)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_stat_force_next_flush()")
        self.warm.wait()
        self.begin.wait()
        while time.monotonic() < self.end:
            self.taken[number] += len(taskqueue.claim(f"bench/{number}", limit=BATCH, memory=memory))
            if memory.is_turned_away:
                self.turned_away[number] += 1
                time.sleep(max(0.0, memory.closed.opens_at - time.monotonic()))
        connection.close()


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.contention", description=__doc__)
    parser.add_argument("--queues", type=numbers, default=[10, 1000, 10_000])
    parser.add_argument("--claimers", type=numbers, default=[1, 16, 64])
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with Server() as server:
        os.environ |= {**OURS.environment(server.url("bench")), "DJANGO_SETTINGS_MODULE": "benchmarks.settings"}
        sys.path.insert(0, os.environ["PYTHONPATH"].split(os.pathsep)[0])
        django.setup()
        for queues in given.queues:
            many_queues(server, queues)
            close()
        for claimers in given.claimers:
            one_lane(server, claimers)
            close()


def close() -> None:
    """The next measure begins with a database of its own."""
    from django.db import connection

    connection.close()


if __name__ == "__main__":
    main()
