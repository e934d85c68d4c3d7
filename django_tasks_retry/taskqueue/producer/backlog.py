"""Backlog: a cap on how many tasks wait in a queue or lane, looked at when more are enqueued. Others are not looked at.

It is exact, for what is committed, up to a thousand; a larger count is remembered for a second, with what this process
adds meanwhile. Transactions that are open at once do not see each other's tasks: each may fill the last places.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from django.db import transaction

from ...conf import backlogs
from ...errors import QueueFull
from ...models import Task
from ...rules.backlog import LANE, Backlog, Full, backlog_for
from ..database import fetch
from ..engines import engine_for
from ..engines.statements import read_sql
from ..lanes.summaries import waiting_in_lane
from .around import insert_within
from .insert import holders_of
from .new_tasks import key_of

logger = logging.getLogger("django_tasks_retry")
WAITING = read_sql("waiting")
EXACT = 1000
REMEMBER_SECONDS = 1.0
WARN_SECONDS = 10.0
ACTOR = "queue"


class Place(NamedTuple):
    """What is capped together: a queue, or a lane."""

    backend: str
    name: str
    is_lane: bool = False

    @property
    def label(self) -> str:
        """As the settings name it."""
        return f"{LANE}{self.name}" if self.is_lane else self.name

    def __str__(self) -> str:
        return f"{'lane' if self.is_lane else 'queue'} {self.name}"


class Count(NamedTuple):
    waiting: int
    at: float


_counts: dict[tuple[str, Place], Count] = {}
_warned: dict[Place, float] = {}


def store(tasks: Sequence[Task], using: str) -> list[Task]:
    """Insert. Where queues are full, what is dropped is written and cancelled in one transaction."""
    too_many = find_too_many(tasks, using) if is_capped(tasks) else {}
    if not too_many:
        return insert_within(tasks, using)
    with transaction.atomic(using=using):
        return drop(insert_within(tasks, using), too_many, using)


def is_capped(tasks: Sequence[Task]) -> bool:
    """Whether any of the tasks' backends caps anything: all that a plain enqueue asks."""
    return any(backlogs(backend) for backend in {task.backend for task in tasks})


def find_too_many(tasks: Sequence[Task], using: str) -> dict[UUID, str]:
    """Which of the tasks are to be dropped, and why. QueueFull where the settings say so; nothing is written yet."""
    too_many: dict[UUID, str] = {}
    places: dict[Place, list[Task]] = defaultdict(list)
    for task in tasks:
        places[Place(task.backend, task.queue)].append(task)
        if task.lane:
            places[Place(task.backend, task.lane, is_lane=True)].append(task)
    for place, asked in places.items():
        backlog = backlog_for(place.label, backlogs(place.backend))
        if backlog is not None:
            too_many |= over(place, backlog, asked, using)
    return too_many


def over(place: Place, backlog: Backlog, asked: list[Task], using: str) -> dict[UUID, str]:
    waiting = count(place, backlog.waiting, using)
    if waiting + len(asked) > backlog.waiting:
        asked = new_ones(asked, using)
    room = max(0, backlog.waiting - waiting)
    note_added(place, min(len(asked), room), using)
    if len(asked) <= room:
        return {}
    if backlog.full is Full.RAISE:
        raise QueueFull(place.name, backlog.waiting, "lane" if place.is_lane else "queue")
    why = f"{place} is full: {backlog.waiting} tasks wait"
    if backlog.full is Full.WARN:
        warn(place, why)
        return {}
    return {task.id: why for task in asked[room:]}


def new_ones(tasks: list[Task], using: str) -> list[Task]:
    """Without those whose unique key is held: they add nothing."""
    unique = [task for task in tasks if task.unique_key]
    held = holders_of(unique, engine_for(using)) if unique else {}
    return [task for task in tasks if not task.unique_key or key_of(task) not in held]


def count(place: Place, cap: int, using: str) -> int:
    """Waiting tasks, counted up to the cap."""
    known = _counts.get((using, place))
    if cap > EXACT and known is not None and time.monotonic() - known.at < REMEMBER_SECONDS:
        return known.waiting
    if place.is_lane:
        waiting = waiting_in_lane(place.name, cap, using)
    else:
        waiting = int(fetch(WAITING, {"queue": place.name, "limit": cap}, using)[0][0])
    _counts[using, place] = Count(waiting, time.monotonic())
    return waiting


def note_added(place: Place, added: int, using: str) -> None:
    known = _counts[using, place]
    _counts[using, place] = Count(known.waiting + added, known.at)


def warn(place: Place, why: str) -> None:
    if time.monotonic() - _warned.get(place, float("-inf")) > WARN_SECONDS:
        _warned[place] = time.monotonic()
        logger.warning("%s; more are enqueued nevertheless", why)


def drop(tasks: Sequence[Task], too_many: dict[UUID, str], using: str) -> list[Task]:
    """Cancel those that were just written and are too many; how all stand afterwards. Nothing vanishes unseen."""
    dropped = [task for task in tasks if task.id in too_many and not task.already_enqueued]
    for why in {too_many[task.id] for task in dropped}:
        engine_for(using).cancel([task.id for task in dropped if too_many[task.id] == why], ACTOR, why, wait=True)
    rows = Task.objects.using(using).in_bulk([task.id for task in dropped])
    return [rows.get(task.id, task) for task in tasks]


def full_queues(queues: Sequence[str], backend: str, using: str) -> dict[str, Backlog]:
    """Those of the queues that are full, counted afresh: for people who look."""
    capped = {queue: backlog_for(queue, backlogs(backend)) for queue in queues}
    return {
        queue: backlog
        for queue, backlog in capped.items()
        if backlog and int(fetch(WAITING, {"queue": queue, "limit": backlog.waiting}, using)[0][0]) >= backlog.waiting
    }
