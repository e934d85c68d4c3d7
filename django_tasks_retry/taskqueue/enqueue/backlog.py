"""Backlog: a cap on the pending tasks of a queue or lane, checked before more are enqueued. Others are not counted.

The cap is exact for committed tasks up to a thousand; a larger count is cached for a second, plus the tasks that this
process adds meanwhile. Open transactions do not see each other's tasks, so together they can exceed the limit.
"""

import time
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from ...conf import backlogs
from ...errors import QueueFull
from ...models import Task
from ...rules.queues import LANE, backlog_for
from ..engines import engine_for
from ..lanes import waiting_in_lane
from ..new_tasks import key_of
from .unique import holders_by_key

EXACT = 1000
REMEMBER_SECONDS = 1.0


class Place(NamedTuple):
    """A queue or a lane: what is capped together."""

    backend: str
    name: str
    is_lane: bool = False

    @property
    def label(self) -> str:
        """The name of the limit, as in the settings."""
        return f"{LANE}{self.name}" if self.is_lane else self.name


class Count(NamedTuple):
    pending: int
    at: float


_counts: dict[tuple[str, Place], Count] = {}


def is_capped(tasks: Sequence[Task]) -> bool:
    """Return whether any of the tasks' backends caps anything: all that a plain enqueue asks."""
    return any(backlogs(backend) for backend in {task.backend for task in tasks})


def check_backlog(tasks: Sequence[Task], using: str) -> None:
    """Raise QueueFull if a queue or lane has no room for these tasks."""
    if not is_capped(tasks):
        return
    places: dict[Place, list[Task]] = defaultdict(list)
    for task in tasks:
        places[Place(task.backend, task.queue)].append(task)
        if task.lane:
            places[Place(task.backend, task.lane, is_lane=True)].append(task)
    for place, asked in places.items():
        max_pending = backlog_for(place.label, backlogs(place.backend))
        if max_pending is not None:
            check_room(place, max_pending, asked, using)


def check_room(place: Place, max_pending: int, asked: list[Task], using: str) -> None:
    pending = count_pending(place, max_pending, using)
    if pending + len(asked) > max_pending:
        asked = without_held(asked, using)
    room = max(0, max_pending - pending)
    if len(asked) > room:
        raise QueueFull(place.name, max_pending, "lane" if place.is_lane else "queue")
    known = _counts[using, place]
    _counts[using, place] = Count(known.pending + len(asked), known.at)


def without_held(tasks: list[Task], using: str) -> list[Task]:
    """Drop tasks whose unique key is held: they add nothing."""
    unique = [task for task in tasks if task.unique_key]
    held = holders_by_key(unique, engine_for(using)) if unique else {}
    return [task for task in tasks if not task.unique_key or key_of(task) not in held]


def count_pending(place: Place, cap: int, using: str) -> int:
    """Pending tasks, counted up to the cap."""
    known = _counts.get((using, place))
    if cap > EXACT and known is not None and time.monotonic() - known.at < REMEMBER_SECONDS:
        return known.pending
    pending = (waiting_in_lane if place.is_lane else count_in_queue)(place.name, cap, using)
    _counts[using, place] = Count(pending, time.monotonic())
    return pending


def count_in_queue(queue: str, cap: int, using: str) -> int:
    return int(engine_for(using).fetch("waiting", {"queue": queue, "limit": cap})[0][0])


def full_queues(queues: Sequence[str], backend: str, using: str) -> dict[str, int]:
    """The caps of those queues that are full, counted afresh: for the console."""
    capped = {queue: backlog_for(queue, backlogs(backend)) for queue in queues}
    return {queue: cap for queue, cap in capped.items() if cap and count_in_queue(queue, cap, using) >= cap}
