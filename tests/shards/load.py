"""Calls of every kind from several threads; and what must be true of them afterwards, whatever happened."""

from __future__ import annotations

import random
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Any
from uuid import UUID

from django.db import DatabaseError, connections

from django_tasks_retry.errors import EnqueueTimeout, ShardAway
from django_tasks_retry.models import Schedule, Task, TaskEvent
from django_tasks_retry.rules.names import shard_of
from tests.shards import tasks

NAMES = ["q0", "q1", "q2"]
KINDS: dict[str, Callable[[int], Task]] = {
    "plain": lambda n: Task.objects.enqueue(tasks.note, [n]),
    "unique": lambda n: Task.objects.enqueue(tasks.slow_note, [n], unique_key=f"key-{n % 97}"),
    "lane": lambda n: Task.objects.enqueue(tasks.slow_note, [n], lane=f"lane-{n % 31}"),
    "workflow": lambda _: Task.objects.enqueue(tasks.gathers, [3]),
    "shard_key": lambda n: Task.objects.enqueue(tasks.note, [n], shard_key=f"tenant-{n % 53}"),
}


@dataclass
class Load:
    """Threads that enqueue, each one kind, at so many calls a second."""

    rate: float = 8.0
    acknowledged: set[UUID] = field(default_factory=set)
    refused: Counter[str] = field(default_factory=Counter)
    longest: float = 0.0
    is_over: bool = False
    threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        self.threads = [threading.Thread(target=self.enqueue, args=[kind], daemon=True) for kind in KINDS]
        for thread in self.threads:
            thread.start()

    def enqueue(self, kind: str) -> None:
        chance = random.Random(kind)
        while not self.is_over:
            began = monotonic()
            try:
                self.acknowledged.add(KINDS[kind](chance.randrange(10_000)).pk)
            except (ShardAway, EnqueueTimeout, DatabaseError) as error:
                self.refused[type(error).__name__] += 1
            self.longest = max(self.longest, monotonic() - began)
            sleep(1 / self.rate)
        connections.close_all()

    def stop(self) -> None:
        self.is_over = True
        for thread in self.threads:
            thread.join(30)


def unfinished() -> int:
    return sum(Task.objects.using(name).filter(finished_at=None).count() for name in NAMES)


def finished(name: str) -> int:
    return Task.objects.using(name).filter(finished_at__isnull=False).count()


def violations(load: Load) -> dict[str, int]:
    """Count what must not be."""
    rows: dict[UUID, Any] = {}
    seen: Counter[UUID] = Counter()
    misplaced = 0
    columns = ("pk", "status", "unique_key", "lane", "created_at", "started_at", "finished_at", "schedule_id", "slot")
    for number, name in enumerate(NAMES):
        for row in Task.objects.using(name).values(*columns):
            rows[row["pk"]] = row
            seen[row["pk"]] += 1
            misplaced += shard_of(row["pk"]) != number
    keys, lanes, slots = defaultdict(list), defaultdict(list), Counter[Any]()
    for row in rows.values():
        if row["unique_key"]:
            keys[row["unique_key"]].append((row["created_at"], row["finished_at"]))
        if row["lane"]:
            lanes[row["lane"]].append((row["started_at"], row["finished_at"]))
        slots[row["schedule_id"], row["slot"]] += row["schedule_id"] is not None
    ends = Counter[UUID]()
    for name in NAMES:
        ends.update(TaskEvent.objects.using(name).filter(kind="task.completed").values_list("task_id", flat=True))
    return {
        "lost": len(load.acknowledged - rows.keys()),
        "not done": sum(rows[pk]["status"] != "SUCCESS" for pk in load.acknowledged & rows.keys()),
        "finished twice": sum(count > 1 for count in ends.values()) + sum(count > 1 for count in seen.values()),
        "in the wrong shard": misplaced,
        "two holders of a key": sum(most_at_once(spans) > 1 for spans in keys.values()),
        "lanes over their limit": sum(most_at_once(spans) > 2 for spans in lanes.values()),
        "slots with two tasks": sum(count > 1 for count in slots.values()),
        "schedules lost": 6
        - len({pk for name in NAMES for pk in Schedule.objects.using(name).values_list("pk", flat=True)}),
    }


def most_at_once(spans: Iterable[tuple[Any, Any]]) -> int:
    """Return how many of these spans overlap at most."""
    moments = [(begin, 1) for begin, _ in spans if begin] + [(end, -1) for begin, end in spans if begin and end]
    at_once = most = 0
    for _, step in sorted(moments):
        at_once += step
        most = max(most, at_once)
    return most
