"""The cohorts of lanes: limited, rated, in strict order, and fair ones; a queue and a function limited as a whole."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django_tasks_retry import lane, retry
from django_tasks_retry.compat import task
from django_tasks_retry.taskqueue import EnqueueOptions, current_lease, enqueue_many
from django_tasks_retry.verify.history import Event
from tests.soak.cohorts import BUDGET, note
from tests.soak.database import tried
from tests.soak.permits import ALLOWED, BACKLOG, CROWD, PER, RUNNING, STARTS, Member

BATCH, WAITING = 40, 400
NAMES = range(4)
FAILS_SECONDS = 0.004  # whoever is to take less fails at first


@task
@retry(max_attempts=BUDGET)
@lane("limited-{name}", concurrency=RUNNING)
def limited(number: str, name: int, seconds: float) -> None:
    work(seconds)


@task
@retry(max_attempts=BUDGET)
@lane("rated-{name}", rate=(STARTS, PER))
def rated(number: str, name: int, seconds: float) -> None:
    work(seconds)


@task
@retry(max_attempts=BUDGET)
@lane("ordered-{name}", order="strict")
def ordered(number: str, name: int, seconds: float) -> None:
    """Some wait for a retry, and the others of their lane with them."""
    work(seconds)
    if seconds < FAILS_SECONDS and current_lease.get().attempts == 1:
        raise ValueError("once more")


@task
@retry(max_attempts=BUDGET)
def fair(number: str, name: int, seconds: float) -> None:
    """In lanes without limits: one with a crowd, and others with a task now and then."""
    work(seconds)


@task(queue_name="narrow")
@retry(max_attempts=BUDGET)
def narrow(number: str, name: int, seconds: float) -> None:
    work(seconds)


@task
@retry(max_attempts=BUDGET)
def metered(number: str, name: int, seconds: float) -> None:
    work(seconds)


def work(seconds: float) -> None:
    note("start")
    time.sleep(seconds)
    note("end")


FUNCTIONS = {each.func.__name__: each for each in (limited, rated, ordered, fair, narrow, metered)}
PATHS = {f"{__name__}.{name}": name for name in FUNCTIONS}


@dataclass(slots=True)
class LaneCohort:
    """Keeps lanes filled while others are at work."""

    wanted: int
    chance: random.Random
    asked: int = 0
    acknowledged: dict[UUID, Any] = field(default_factory=dict)
    unsure: set[Any] = field(default_factory=set)

    @property
    def is_done(self) -> bool:
        return self.asked >= self.wanted

    def stop(self) -> None:
        """Limited lanes would take their time over what is left."""
        self.wanted = self.asked

    def turn(self) -> None:
        waiting = tried(self.waiting)
        if waiting is not None and not self.is_done:
            self.enqueue(self.missing(waiting))

    def waiting(self) -> Counter[str]:
        from django_tasks_retry.models import Task

        return Counter(Task.objects.pending().filter(func_path__in=PATHS).values_list("lane", flat=True))

    def missing(self, waiting: Counter[str]) -> list[str]:
        """More of the crowd where it is small, of the limited where not too many wait, and one that is alone."""
        backlog = min(BACKLOG, self.wanted // 4)
        is_small, others = waiting[CROWD] < backlog, waiting.total() - waiting[CROWD]
        kinds = self.chance.choices(list(ALLOWED), k=BATCH) if others < WAITING else []
        return kinds + ([CROWD] * (backlog // 2) if is_small else [f"fair-{self.chance.choice(NAMES)}"])

    def enqueue(self, kinds: Sequence[str]) -> None:
        numbers = [f"lane {self.asked + n}" for n in range(min(len(kinds), self.wanted - self.asked))]
        self.asked += len(numbers)
        requests = [self.request(number, kind) for number, kind in zip(numbers, kinds, strict=False)]
        rows = tried(lambda: enqueue_many(requests))
        if rows is None:
            self.unsure |= set(numbers)
        else:
            self.acknowledged |= {row.pk: row.args[0] for row in rows}

    def request(self, number: str, kind: str) -> EnqueueOptions:
        """5 % about as long as a lease, as others are."""
        seconds = self.chance.uniform(0, 0.02) if self.chance.random() < 0.95 else self.chance.uniform(0.3, 1.2)
        if kind.startswith("fair"):
            return EnqueueOptions(fair, [number, 0, seconds], lane=kind)
        return EnqueueOptions(FUNCTIONS[kind], [number, self.chance.choice(NAMES), seconds])

    def members(self, events: Mapping[UUID, Sequence[Event]]) -> dict[UUID, Member]:
        from django_tasks_retry.models import Task

        rows = Task.objects.filter(func_path__in=PATHS).values_list("pk", "func_path", "lane", "created_at")
        return {
            pk: Member(key or PATHS[path], created.timestamp(), events.get(pk, []))
            for pk, path, key, created in rows.iterator(5000)
        }
