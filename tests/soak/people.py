"""Those who use the queue meanwhile: one enqueues, one cancels and retries, one sees how long urgent tasks wait."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from uuid import UUID

from django.db import connection

from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import EnqueueOptions, cancel, enqueue, enqueue_many, retry
from tests.soak import tasks
from tests.soak.database import tried

BATCH = 100
WAITING = 1000
PAUSE_SECONDS = 0.2


@dataclass(slots=True)
class Producer:
    """Keeps the queue filled until all are enqueued, and remembers what was acknowledged."""

    wanted: int
    lease: float
    chance: random.Random
    next_number: int = 0
    acknowledged: dict[UUID, int] = field(default_factory=dict)
    unsure: set[int] = field(default_factory=set)
    request: Callable[[int, random.Random, float], EnqueueOptions] = tasks.request

    @property
    def is_done(self) -> bool:
        return self.next_number >= self.wanted

    def turn(self, unfinished: int | None) -> None:
        while not self.is_done and unfinished is not None and unfinished < WAITING:
            unfinished += self.enqueue()

    def enqueue(self) -> int:
        numbers = range(self.next_number, min(self.next_number + BATCH, self.wanted))
        self.next_number = numbers.stop
        requests = [self.request(number, self.chance, self.lease) for number in numbers]
        rows = tried(lambda: enqueue_many(requests))
        if rows is None:
            self.unsure |= set(numbers)
        else:
            self.acknowledged |= {row.pk: row.args[0] for row in rows}
        return len(numbers)


@dataclass(slots=True)
class Operator:
    """Cancels what waits or runs, and retries what has finished, a few at a time. Knows what cannot be retried.

    In a thread of its own: a row that somebody keeps locked makes an operator wait, but not the nemesis.
    """

    chance: random.Random
    unreadable: Container[UUID] = ()
    deeds: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    is_done: threading.Event = field(default_factory=threading.Event)

    def work(self) -> None:
        while not self.is_done.wait(PAUSE_SECONDS):
            self.turn()
        connection.close()

    def turn(self) -> None:
        deed = self.chance.choice([self.cancel, self.cancel_running, self.retry])
        try:
            tried(deed)
        except Exception as error:  # noqa: BLE001 - whatever a hostile row does to an operator is to be known
            self.failures[f"I9 an operator could not {deed.__name__}: {error!r:.200}"] += 1

    def cancel(self) -> None:
        self.deeds["cancelled"] += len(cancel(self.some(Task.objects.pending(), 1), by="operator").done)

    def cancel_running(self) -> None:
        self.deeds["cancelled"] += len(cancel(self.some(Task.objects.running(), 2), by="operator").done)

    def retry(self) -> None:
        newest = Task.objects.finished().order_by("-pk")
        chosen = [task for task in self.some(newest, 2) if task not in self.unreadable]
        self.deeds["retried"] += len(retry(chosen, by="operator"))

    def some(self, found, most: int) -> list[UUID]:
        ids = list(found.values_list("pk", flat=True)[:50])
        return self.chance.sample(ids, min(most, len(ids)))


@dataclass(slots=True)
class Watch:
    """Enqueues an urgent task now and then, and remembers when."""

    enqueued: dict[UUID, float] = field(default_factory=dict)
    acknowledged: dict[UUID, int] = field(default_factory=dict)
    unsure: set[int] = field(default_factory=set)
    number: int = 0

    def turn(self) -> None:
        """Its numbers are below 0."""
        self.number -= 1
        row = tried(lambda: enqueue(EnqueueOptions(tasks.canary, [self.number], priority=100)))
        if row is None:
            self.unsure.add(self.number)
        else:
            self.acknowledged[row.pk] = self.number
            self.enqueued[row.pk] = row.created_at.timestamp()
