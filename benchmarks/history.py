"""The cost of history, whole and in partitions: to store, to move, to forget, and to a drain that runs meanwhile.

python -m benchmarks.history [--tasks 200000] [--drained 40000] [--layouts whole,partitioned]
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import django

from . import drive
from .contenders import OURS
from .measures import Bench
from .server import Server

TABLES = ("task", "taskresult", "taskevent", "step")
SIZE = """
SELECT COALESCE(sum(pg_total_relation_size(oid)), 0)::bigint
FROM pg_class WHERE relname ~ '^django_tasks_retry_{}(_p[0-9_]+|_kept|_before)?$' AND relkind = 'r'
"""
RELATIONS = """
SELECT relname, pg_relation_size(oid)
FROM pg_class
WHERE relname ~ '^(django_tasks_retry_(task|taskresult|taskevent|step)|dtr_)' AND relkind IN ('r', 'i')
    AND pg_relation_size(oid) > 65536
ORDER BY 2 DESC
"""
COPY = """
INSERT INTO {target} ({columns})
SELECT {values}
FROM {source} AS t CROSS JOIN generate_series(1, {count}) AS n
WHERE t.{key} = '{sample}'
"""
ID = "(lpad(to_hex({start} + n * {length} / ({count} + 1)), 12, '0') || '70008' || substr(md5(n::text), 1, 15))::uuid"


class History:
    def __init__(self, server: Server, layout: str, count: int) -> None:
        from django_tasks_retry.taskqueue.retention.convert import partition_history
        from django_tasks_retry.taskqueue.retention.layout import Period

        self.server, self.layout, self.count = server, layout, count
        self.url = Bench(server).ready(OURS)
        if layout == "partitioned":
            partition_history("default", Period.DAY, ["default"])
        self.today = Period.DAY.containing(datetime.now(UTC))
        self.yesterday = Period.DAY.containing(self.today.start - Period.DAY.length / 2)

    def measure(self, drained: int) -> Iterator[tuple[str, float, str]]:
        alone = self.drain(drained)
        yield "drain alone", alone.rate, "/s"
        yield "drain alone, WAL a task", alone.wal / drained, "B"
        if self.layout == "partitioned":
            yield from self.move(drained)
        yield "stored, a task", self.size() / drained, "B"
        for name, size in self.relations():
            yield f"stored, a task: {name}", size / drained, "B"
        self.fill()
        yield f"stored, {self.count:,} more", self.size() / 1e6, "MB"
        yield "drain beside this", self.drain(drained).rate, "/s"
        forgotten: list[tuple[float, float]] = []
        forgetting = threading.Thread(target=lambda: forgotten.append(self.spent(self.forget)))
        yield "drain while it is forgotten", self.drain(drained, forgetting.start).rate, "/s"
        forgetting.join()
        yield "forget, seconds", forgotten[0][0], "s"
        yield "forget, WAL (with the drain's own)", forgotten[0][1] / 1e6, "MB"
        self.fill()
        seconds, wal = self.spent(self.forget)
        yield "forget once more, alone", seconds, "s"
        yield "forget once more, alone: WAL", wal / 1e6, "MB"
        yield "files before vacuum", self.size() / 1e6, "MB"

    def drain(self, count: int, meanwhile: Callable[[], Any] = lambda: None) -> Any:
        OURS.tell(self.url, "bulk", count)
        self.server.checkpoint()
        meanwhile()
        return drive.drain(self.server, OURS, self.url, processes=2)

    def move(self, count: int) -> Iterator[tuple[str, float, str]]:
        from django_tasks_retry.taskqueue.retention import maintain
        from django_tasks_retry.taskqueue.retention.layout import read_layout

        maintain.SETTLED_SECONDS = 0.0
        layout = read_layout("default")
        assert layout is not None
        self.server.checkpoint()
        cpu = self.server.cpu()
        seconds, wal = self.spent(lambda: sum(maintain.archive_pages(layout, "default")))
        yield "move to partitions", count / seconds, "/s"
        yield "move to partitions, server CPU", (self.server.cpu() - cpu) / count * 1e6, "us"
        yield "move to partitions, WAL a task", wal / count, "B"

    def size(self) -> int:
        return sum(int(self.server.ask("bench", SIZE.format(table))) for table in TABLES)

    def relations(self) -> list[tuple[str, int]]:
        """Each table and index by its size, the largest first."""
        with self.server.connect("bench") as connection:
            return [(str(name), int(size)) for name, size in connection.execute(RELATIONS).fetchall()]

    def fill(self) -> None:
        """Yesterday's tasks, each like one that was really done."""
        from django_tasks_retry.taskqueue.retention.premake import create_partition

        suffix = ""
        if self.layout == "partitioned":
            create_partition(self.yesterday, "default")
            suffix = f"_{self.yesterday.name}"
        sample = self.server.ask("bench", "SELECT id FROM django_tasks_retry_task WHERE status = 'SUCCESS' LIMIT 1")
        with self.server.connect("bench") as connection:
            for table, key in (("task", "id"), ("taskresult", "task_id"), ("taskevent", "task_id")):
                self.copy(connection, f"django_tasks_retry_{table}", suffix, key, sample)
            connection.execute("VACUUM ANALYZE")
        self.server.checkpoint()

    def copy(self, connection: Any, source: str, suffix: str, key: str, sample: Any) -> None:
        target = source + suffix
        names = connection.execute(
            "SELECT attname, atttypid = 'timestamptz'::regtype FROM pg_attribute "
            f"WHERE attrelid = '{target}'::regclass AND attnum > 0 AND NOT attisdropped"
        ).fetchall()
        start, length = int(self.yesterday.start.timestamp() * 1000), 86_400_000
        id_ = ID.format(start=f"{start}::bigint", length=f"{length}::bigint", count=self.count)
        changed = {key: id_, "run_id": id_}
        if source.endswith("event"):
            changed["id"] = "t.id"
        values = [changed.get(name, f"t.{name} - interval '1 day'" if timed else f"t.{name}") for name, timed in names]
        connection.execute(f"ALTER TABLE {target} DISABLE TRIGGER USER")
        connection.execute(COPY.format(
            target=target, source=source, key=key, sample=sample, count=self.count,
            columns=", ".join(name for name, _ in names), values=", ".join(values),
        ))  # fmt: skip
        connection.execute(f"ALTER TABLE {target} ENABLE TRIGGER USER")

    def forget(self) -> None:
        from django_tasks_retry import taskqueue
        from django_tasks_retry.rules.status import Status
        from django_tasks_retry.taskqueue.retention.drop import drop

        if self.layout == "whole":
            sum(taskqueue.prune(keep={Status.SUCCESS: 12 * 3600}))
            return
        for _ in range(20):
            try:
                drop(self.yesterday, "default")
            except django.db.DatabaseError:
                continue
            return

    def spent(self, act: Callable[[], Any]) -> tuple[float, float]:
        """Seconds, and bytes of WAL."""
        wal, began = self.server.wal(), time.perf_counter()
        act()
        return time.perf_counter() - began, self.server.wal() - wal


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.history", description=__doc__)
    parser.add_argument("--tasks", type=int, default=200_000)
    parser.add_argument("--drained", type=int, default=40_000)
    parser.add_argument("--layouts", default="whole,partitioned")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with Server() as server:
        os.environ |= {**OURS.environment(server.url("bench")), "DJANGO_SETTINGS_MODULE": "benchmarks.settings"}
        sys.path.insert(0, os.environ["PYTHONPATH"].split(os.pathsep)[0])
        django.setup()
        from django.db import connection

        for layout in given.layouts.split(","):
            print(f"-- {layout}, {given.tasks:,} tasks")
            for name, value, unit in History(server, layout, given.tasks).measure(given.drained):
                print(f"{name:40} {value:12,.1f} {unit}", flush=True)
            connection.close()


if __name__ == "__main__":
    main()
