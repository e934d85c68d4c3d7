"""The measures: each takes a bench and yields figures."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory

from . import crowd, drive, meter
from .contenders import CEILING, OURS, Contender
from .meter import Drained
from .server import Server

NOISY = 0.1


@dataclass(frozen=True)
class Figure:
    measure: str
    who: str
    value: float
    unit: str
    foreign: float | None = None
    """The share of the machine that others used meanwhile; None for figures that are older than its meter."""
    date: str = ""

    @property
    def is_noisy(self) -> bool:
        return self.foreign is not None and self.foreign >= NOISY


@dataclass
class Bench:
    """Shared by all measures: the server, the contenders, and the amount of work."""

    server: Server
    peers: list[Contender] = field(default_factory=list)
    quick: bool = False

    def some(self, full: int) -> int:
        return max(200, full // 10) if self.quick else full

    @property
    def queues(self) -> list[Contender]:
        return [OURS, *(peer for peer in self.peers if peer.unfinished)]

    def ready(self, who: Contender, tasks: int = 0) -> str:
        """A fresh database with so many tasks to do; its URL."""
        url = self.server.fresh("bench")
        who.tell(url, "setup")
        self.server.checkpoint()
        if tasks:
            who.tell(url, "bulk", tasks)
        return url

    def drain(self, who: Contender, tasks: int, processes: int = 2) -> Drained:
        return drive.drain(self.server, who, self.ready(who, tasks), processes=processes)


def enqueue(bench: Bench) -> Iterator[Figure]:
    """One by one through Django's API; and in lists of 1,000 with an argument each, a commit for each list."""
    one, bulk = bench.some(2_000), bench.some(20_000)
    for who in [CEILING, *bench.queues]:
        yield Figure("enqueue, one by one", who.name, one / who.tell(bench.ready(who), "one", one), "/s")
        url = bench.ready(who)
        before = bench.server.wal()
        yield Figure("enqueue, lists of 1,000", who.name, bulk / who.tell(url, "bulk", bulk), "/s")
        yield Figure("WAL a task, enqueue", who.name, (bench.server.wal() - before) / bulk, "B")


def stream(bench: Bench) -> Iterator[Figure]:
    """A million calls out of a generator, and by how much the process that enqueues them grows."""
    count = bench.some(1_000_000)
    seconds, megabytes = OURS.tell(bench.ready(OURS), "stream", count)
    yield Figure(f"enqueue, {count:,} streamed", OURS.name, count / seconds, "/s")
    yield Figure(f"enqueue, {count:,} streamed: growth of the process", OURS.name, megabytes, "MB")


def drain(bench: Bench) -> Iterator[Figure]:
    """No-ops by the real worker, with two processes; ours and the ceiling with one, too."""
    tasks = bench.some(20_000)
    for processes, runners in ((1, [CEILING, OURS]), (2, [CEILING, *bench.queues])):
        for who in runners:
            done = bench.drain(who, tasks, processes)
            label = f"drain, {processes} process{'es' if processes > 1 else ''}"
            yield Figure(label, who.name, done.rate, "/s")
            yield Figure(f"{label}: worker CPU", who.name, done.worker_cpu / done.tasks * 1000, "s/1,000")
            yield Figure(f"{label}: server CPU", who.name, done.server_cpu / done.tasks * 1000, "s/1,000")
            yield Figure(f"{label}: WAL a task", who.name, done.wal / done.tasks, "B")
            yield Figure(f"{label}: largest child", who.name, done.rss, "MB")


def kinds(bench: Bench) -> Iterator[Figure]:
    """The same drain of ours with 1 kB in and out, with receivers on each signal, and of coroutines."""
    tasks = bench.some(20_000)
    for label, kind, receivers in (
        ("no-ops", "noop", ""),
        ("1 kB in, 1 kB out", "payload", ""),
        ("a receiver on each signal", "noop", "1"),
        ("coroutines", "coroutine", ""),
    ):
        os.environ["BENCHMARK_RECEIVERS"] = receivers
        url = bench.ready(OURS)
        OURS.tell(url, "fill", kind, tasks, 1)
        yield Figure(f"drain of kinds, {label}", OURS.name, drain_filled(bench, url).rate, "/s")
    del os.environ["BENCHMARK_RECEIVERS"]


def growth(bench: Bench) -> Iterator[Figure]:
    """Curves of ours: processes, threads at tasks of 10 ms, and what a claim costs with more queues."""
    for processes in (1, 2, 4, 8):
        done = bench.drain(OURS, bench.some(20_000), processes)
        yield Figure(f"growth, processes: {processes}", OURS.name, done.rate, "/s")
    for threads in (8, 32, 128):
        url = bench.ready(OURS)
        OURS.tell(url, "fill", "nap", bench.some(60 * threads), 1)
        yield Figure(
            f"growth, threads at tasks of 10 ms: {threads}", OURS.name, drain_filled(bench, url, 1, threads).rate, "/s"
        )
    for queues in (1, 10, 100):
        url = bench.ready(OURS)
        OURS.tell(url, "fill", "noop", bench.some(10_000), queues)
        cost = statistics.median(OURS.tell(url, "claims", 40))
        yield Figure(f"growth, a claim of 100 by queues: {queues}", OURS.name, cost, "ms")


def drain_filled(bench: Bench, url: str, processes: int = 2, threads: int | None = None) -> Drained:
    return drive.drain(bench.server, OURS, url, processes=processes, threads=threads)


def backlog(bench: Bench) -> Iterator[Figure]:
    """The same drain of ours with a million other tasks in the table; before each, one without them."""
    tasks, others = bench.some(20_000), bench.some(1_000_000)
    for kind in ("future", "future, more urgent", "finished"):
        yield Figure("drain, no backlog", OURS.name, bench.drain(OURS, tasks).rate, "/s")
        url = bench.ready(OURS)
        crowd.load(bench.server, "bench", kind, others)
        with bench.server.connect("bench") as connection:
            connection.execute("VACUUM ANALYZE")
        bench.server.checkpoint()  # else the server would be busy writing the others
        OURS.tell(url, "bulk", tasks)
        done = drive.drain(bench.server, OURS, url, processes=2)
        yield Figure(f"drain, {others:,} {kind}", OURS.name, done.rate, "/s")


def horizon(bench: Bench) -> Iterator[Figure]:
    """A long drain of ours, without and with an idle transaction that keeps all dead rows in place."""
    tasks = bench.some(100_000)
    yield Figure("long drain", OURS.name, bench.drain(OURS, tasks).rate, "/s")
    url = bench.ready(OURS, tasks)
    with bench.server.connect("bench") as idle:
        idle.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        idle.execute("SELECT count(*) FROM django_tasks_retry_task")
        done = drive.drain(bench.server, OURS, url, processes=2)
    yield Figure("long drain, pinned horizon", OURS.name, done.rate, "/s")
    yield Figure("long drain, pinned horizon: slowest claim", OURS.name, slowest_claim(bench), "ms")


def slowest_claim(bench: Bench) -> float:
    """Drain as many tasks as a long drain takes, while no dead row can be removed."""
    url = bench.ready(OURS, bench.some(100_000))
    with bench.server.connect("bench") as idle:
        idle.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        idle.execute("SELECT count(*) FROM django_tasks_retry_task")
        return float(max(OURS.tell(url, "claims", bench.some(100_000) // 100)))


def after_burst(bench: Bench) -> Iterator[Figure]:
    """A claim right after a burst into a table that was analysed empty, against a claim from a settled table."""
    for label, settled in (("claim", True), ("claim after a burst", False)):
        url = bench.ready(OURS)
        with bench.server.connect("bench") as connection:
            connection.execute("ALTER TABLE django_tasks_retry_task SET (autovacuum_enabled = off)")
            connection.execute("VACUUM ANALYZE")
            crowd.load(bench.server, "bench", "due", bench.some(300_000))
            if settled:
                connection.execute("VACUUM ANALYZE")
        yield Figure(label, OURS.name, statistics.median(OURS.tell(url, "claims", 20)), "ms")


def latency(bench: Bench) -> Iterator[Figure]:
    """From enqueued to started, at a worker that waits."""
    for who in bench.queues:
        times = drive.latencies(who, bench.ready(who), bench.some(200))
        for percent in (50, 95, 99):
            yield Figure(f"pick-up, p{percent}", who.name, drive.percentile(times, percent), "ms")


def prune(bench: Bench) -> Iterator[Figure]:
    """Finished tasks past their retention, deleted by a worker that has nothing else to do."""
    tasks, stored = bench.some(100_000), "SELECT count(*) FROM django_tasks_retry_taskresult"
    url = bench.ready(OURS)
    crowd.load(bench.server, "bench", "finished", tasks)
    os.environ["BENCHMARK_PRUNES"] = "1"
    with OURS.working(url, processes=1), closing(drive.Asker(url)) as ask:
        drive.wait_until(lambda: ask(stored) < tasks)
        began, first, wal = time.perf_counter(), ask(stored), bench.server.wal()
        drive.wait_until(lambda: ask(stored) == 0)
        yield Figure("prune", OURS.name, first / (time.perf_counter() - began), "/s")
        yield Figure("prune: WAL a task", OURS.name, (bench.server.wal() - wal) / first, "B")
    del os.environ["BENCHMARK_PRUNES"]


def idle(bench: Bench) -> Iterator[Figure]:
    """Measure a worker that has nothing to do."""
    seconds = 3 if bench.quick else 10
    for who in bench.queues:
        with who.working(bench.ready(who), processes=1) as pid:
            time.sleep(3)
            before = meter.cpu(pid)
            time.sleep(seconds)
            yield Figure("idle CPU", who.name, (meter.cpu(pid) - before) / seconds * 100, "%")
            yield Figure("idle, largest process", who.name, meter.largest(pid), "MB")


def sqlite(bench: Bench) -> Iterator[Figure]:
    """The drain on SQLite, with one process."""
    tasks = bench.some(5_000)
    for who in bench.queues:
        if who.knows_sqlite:
            with TemporaryDirectory(prefix="dtr-bench-") as folder:
                url = f"sqlite:{folder}/db.sqlite3"
                who.tell(url, "setup")
                who.tell(url, "bulk", tasks)
                done = drive.drain(bench.server, who, url, processes=1)
            yield Figure("drain on SQLite, 1 process", who.name, done.rate, "/s")


def schedules(bench: Bench) -> Iterator[Figure]:
    """Ten thousand schedules due at one instant: until the last is enqueued, and lone tasks picked up meanwhile."""
    count = bench.some(10_000)
    for label in ("", " on SQLite"):
        with TemporaryDirectory(prefix="dtr-bench-") as folder:
            url = f"sqlite:{folder}/db.sqlite3" if label else bench.ready(OURS)
            if label:
                OURS.tell(url, "setup")
            due = int(OURS.tell(url, "schedules", count))
            times = drive.latencies(OURS, url, 400)  # with their pauses, from before the instant until long after
            made, milliseconds = OURS.tell(url, "enqueued_by", due)
        if made < count:
            raise RuntimeError(f"{count - made:,} of {count:,} schedules made no task")
        title = f"{count:,} schedules due at once{label}"
        yield Figure(title, OURS.name, milliseconds / 1000, "s")
        yield Figure(f"{title}: pick-up, p95", OURS.name, drive.percentile(times, 95), "ms")


LAYERS = {
    "none": "",
    "one that overrides nothing": "benchmarks.layers.Idle",
    "OpenTelemetry": "benchmarks.layers.Traced",
}


def middleware(bench: Bench) -> Iterator[Figure]:
    """Enqueue and drain of ours with no middleware, with an idle one, and with OpenTelemetry."""
    one, tasks = bench.some(2_000), bench.some(20_000)
    for label, path in LAYERS.items():
        os.environ["BENCHMARK_MIDDLEWARE"] = path
        seconds = OURS.tell(bench.ready(OURS), "one", one)
        yield Figure(f"middleware, {label}: enqueue", OURS.name, seconds / one * 1e6, "µs")
        done = bench.drain(OURS, tasks, 1)
        yield Figure(f"middleware, {label}: worker CPU", OURS.name, done.worker_cpu / done.tasks * 1e6, "µs a task")
    del os.environ["BENCHMARK_MIDDLEWARE"]


UNGUARDED = """
DO $$ DECLARE one record; BEGIN
    FOR one IN
        SELECT conrelid::regclass AS place, conname FROM pg_constraint WHERE contype = 'c' AND conname LIKE 'dtr_%'
    LOOP EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', one.place, one.conname); END LOOP;
    ALTER TABLE django_tasks_retry_task DISABLE TRIGGER USER;
    ALTER TABLE django_tasks_retry_taskresult DISABLE TRIGGER USER;
    ALTER TABLE django_tasks_retry_taskevent DISABLE TRIGGER USER;
END $$
"""


def guard(bench: Bench) -> Iterator[Figure]:
    """Measure the cost of triggers and constraints for the server, at batches of 100."""
    batches = 100
    for label, statement in (("guarded", "SELECT"), ("unguarded", UNGUARDED)):
        url = bench.ready(OURS, 10_000)
        with bench.server.connect("bench") as connection:
            connection.execute("ANALYZE")
            connection.execute(statement)
        for verb, cost in OURS.tell(url, "server_cost", batches).items():
            yield Figure(f"server CPU of {verb}, {label}", OURS.name, cost, "µs a task")


MEASURES: dict[str, Callable[[Bench], Iterator[Figure]]] = {
    measure.__name__: measure
    for measure in (
        enqueue,
        stream,
        drain,
        kinds,
        growth,
        latency,
        idle,
        prune,
        backlog,
        horizon,
        after_burst,
        sqlite,
        schedules,
        middleware,
        guard,
    )
}
