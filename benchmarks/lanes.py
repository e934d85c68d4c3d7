"""Lanes: what keys, limits and fairness cost, in one run on one server. `python -m benchmarks.lanes [measure ...]`.

claims   microseconds a task of claiming and completing batches of 100, by the number of lanes, in turns
drain    tasks a second of a worker with two processes, by the number of lanes; and beside procrastinate's locks
pickup   milliseconds until one task of each of ten lanes begins, behind 200,000 of another
weights  how two lanes of the weights 3 and 1 share a worker
size     a look and a claim among 1,000,000 tasks in 100,000 lanes
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from . import crowd, drive
from .contenders import OURS, PEERS
from .measures import Bench, Figure
from .server import Server

BATCH, BATCHES, ROUNDS = 100, 10, 5
KEYS = {"no lane": 0, "1 lane": 1, "100 lanes": 100, "10,000 lanes": 10_000}
PICK_UPS = """
SELECT extract(epoch FROM min(event.ts) - task.created_at) * 1000
FROM django_tasks_retry_task AS task JOIN django_tasks_retry_taskevent AS event ON event.task_id = task.id
WHERE task.lane LIKE 'lone-%' AND event.kind = 'task.running' GROUP BY task.id
"""
STARTED = "SELECT count(*) FROM django_tasks_retry_task WHERE lane = '{}' AND status <> 'PENDING'"
IN_LANES = """
UPDATE django_tasks_retry_task SET lane = 'free-' || (get_byte(uuid_send(id), 15) + 256 * get_byte(uuid_send(id), 14)
    + 65536 * get_byte(uuid_send(id), 13)) % {lanes}
"""


def claims(bench: Bench) -> Iterator[Figure]:
    here(bench.ready(OURS))
    spent: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for name, keys in KEYS.items():
            spent.setdefault(name, []).append(round_of("free-{}", keys))
        spent.setdefault("100 limited lanes", []).append(round_of("limited-{}", 100))
    for name, values in spent.items():
        yield Figure("claim and complete", name, statistics.median(values), "µs a task")


def here(url: str) -> None:
    """Speak to this database from this process; once."""
    import django

    os.environ |= {"BENCHMARK_DATABASE": url, "DJANGO_SETTINGS_MODULE": "benchmarks.settings"}
    sys.path.insert(0, str(Path(__file__).parent / "contenders"))
    django.setup()


def round_of(template: str, keys: int) -> float:
    """Microseconds a task, of draining what was enqueued. The remainder is cancelled."""
    from benchmarks import tasks
    from django_tasks_retry import taskqueue
    from django_tasks_retry.models import Task

    count = max(BATCH * BATCHES, keys)
    names: Iterable[str] = (template.format(n % keys) if keys else "" for n in range(count))
    taskqueue.enqueue_many(taskqueue.EnqueueOptions(tasks.noop, lane=name) for name in names)
    memory, done = taskqueue.ClaimMemory(), 0
    began = time.perf_counter()
    while done < BATCH * BATCHES:
        leases = taskqueue.claim("worker/1", limit=BATCH, memory=memory)
        taskqueue.finish([taskqueue.Completed(lease) for lease in leases])
        done += len(leases)
    took = (time.perf_counter() - began) / done * 1e6
    while left := list(Task.objects.unfinished().values_list("pk", flat=True)[:2000]):
        taskqueue.cancel(left)
    return took


def drain(bench: Bench) -> Iterator[Figure]:
    for name, keys in KEYS.items():
        yield drained(bench, OURS, name, bench.some(20_000), keys, "free")
    for who in [OURS, *(peer for peer in PEERS if peer.name == "procrastinate")]:
        for keys in (1, 100, 10_000):
            count = bench.some(1000 if keys == 1 else 10_000)
            yield drained(bench, who, f"{keys:,} lanes, one at a time each", count, keys, "single")


def drained(bench: Bench, who: Any, name: str, count: int, keys: int, prefix: str) -> Figure:
    url = bench.ready(who)
    who.tell(url, "keyed", count, keys, prefix)
    rate = drive.drain(bench.server, who, url, processes=2).rate
    return Figure(f"drain, {name}", who.name, rate, "tasks/s")


def pickup(bench: Bench) -> Iterator[Figure]:
    url = bench.ready(OURS)
    OURS.tell(url, "keyed", bench.some(200_000), 1, "free")
    with OURS.working(url, processes=2):
        OURS.tell(url, "lone", 20)
        drive.wait_until(lambda: bench.server.ask("bench", f"SELECT count(*) FROM ({PICK_UPS}) AS p") == 200)
    with bench.server.connect("bench") as connection:
        waits = sorted(float(row[0]) for row in connection.execute(PICK_UPS).fetchall())
    left = bench.server.ask("bench", "SELECT count(*) FROM django_tasks_retry_task WHERE status = 'PENDING'")
    yield Figure("still waiting of the crowd", "lanes", left, "tasks")
    for percent in (50, 99):
        yield Figure(f"pick-up of a lone task, p{percent}", "lanes", drive.percentile(waits, percent), "ms")


def weights(bench: Bench) -> Iterator[Figure]:
    url, count = bench.ready(OURS), bench.some(20_000)
    for lane in ("heavy", "light"):
        OURS.tell(url, "keyed", count, 1, lane)
    started = {lane: STARTED.format(f"{lane}-0") for lane in ("heavy", "light")}
    with OURS.working(url, processes=2):
        drive.wait_until(lambda: bench.server.ask("bench", started["heavy"]) > count * 0.6)
        heavy, light = (bench.server.ask("bench", question) for question in started.values())
    yield Figure("weights 3 : 1", "lanes", heavy / light, "to 1")


def size(bench: Bench) -> Iterator[Figure]:
    rows = bench.some(1_000_000)
    url = bench.ready(OURS)
    crowd.load(bench.server, "bench", "due", rows)
    with bench.server.connect("bench") as connection:
        connection.execute("ALTER TABLE django_tasks_retry_task DISABLE TRIGGER USER")
        connection.execute(IN_LANES.format(lanes=rows // 10))
        connection.execute("ALTER TABLE django_tasks_retry_task ENABLE TRIGGER USER")
        connection.execute("VACUUM ANALYZE django_tasks_retry_task")
    for keyed in (True, False):
        spent = OURS.tell(url, "looks", 50, int(keyed))
        for what, values in spent.items():
            yield Figure(f"{what}, {rows:,} in {rows // 10:,} lanes", "keyed" if keyed else "no lane", *figures(values))


def figures(values: list[float]) -> tuple[float, str]:
    return statistics.median(values), "ms"


MEASURES: dict[str, Callable[[Bench], Iterator[Figure]]] = {
    "claims": claims, "drain": drain, "pickup": pickup, "weights": weights, "size": size,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.lanes", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("measures", nargs="*", metavar="measure", choices=[[], *MEASURES], help="default: all")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with Server() as server:
        bench = Bench(server, quick=given.quick)
        for name in given.measures or MEASURES:
            for figure in MEASURES[name](bench):
                print(f"{figure.measure:45} {figure.who:20} {figure.value:12,.1f} {figure.unit}", flush=True)


if __name__ == "__main__":
    main()
