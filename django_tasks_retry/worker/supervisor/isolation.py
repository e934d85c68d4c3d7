"""Isolation: a task whose process died twice in a row runs in one of its own, so that it harms no neighbour."""

from __future__ import annotations

import logging
import random
from time import monotonic

from ... import registry
from ...models import Task
from ...rules.names import short_id, short_name
from ...rules.queues import serves
from ...taskqueue import ClaimMemory, find_poison, is_work_left
from ..options import WorkerOptions
from ..shared.database import DatabaseCaller, Unavailable
from ..shared.interval import Interval
from .child_process import ChildProcess
from .pool import ChildPool

logger = logging.getLogger(__name__)
LOOK_SECONDS = 10.0
"""Between polls for poison tasks that other supervisors left behind. A crash of an own child polls at once."""

POLLS_A_SECOND = 2
AGAIN_SECONDS = 1.0
"""Seconds until the next try, if no process could be forked or the task could not be claimed."""

Kind = tuple[str, str, str]


class Isolation:
    def __init__(self, options: WorkerOptions, database: DatabaseCaller, pool: ChildPool) -> None:
        self.options, self.database, self.pool = options, database, pool
        self.looking = Interval(LOOK_SECONDS)
        self.page = 0
        self.started: dict[ChildProcess, Task] = {}
        self.set_aside: dict[Kind, float] = {}

    def share_with(self, workers: int) -> None:
        """Poll less often while many workers do."""
        self.looking.seconds = max(LOOK_SECONDS, workers / POLLS_A_SECOND)

    def tick(self) -> ChildProcess | None:
        """Return a child that was started for a poison task, if any."""
        self.note_ended()
        if not (self.pool.has_place_alone and self.database.is_available and self.looking.is_due()):
            return None
        task = self.find()
        return self.start(task) if task else None

    def note_ended(self) -> None:
        """Set a kind of task aside if one could not be claimed: it is paused, say, or its lane is full."""
        for child in [child for child in self.started if child not in self.pool.children]:
            kind = kind_of(self.started.pop(child))
            if child.inflight.claims:
                self.looking.soon()
            else:
                self.set_aside[kind] = monotonic() + LOOK_SECONDS
                self.looking.soon(AGAIN_SECONDS)

    def is_work_left(self) -> bool:
        """Return whether a drain must go on: for a poison task in a full lane, or for tasks that waited for such a one.

        The latter need another child, as the last one ended before them.
        """
        memory = ClaimMemory(self.options.queues, self.options.exclude, registry.known_paths())
        backend = self.options.backend
        try:
            is_poison_left = self.database.call(lambda: is_work_left(memory, backend, poison=True))
            self.pool.wanted += self.database.call(lambda: is_work_left(memory, backend))
        except Unavailable:
            return True
        return is_poison_left or self.pool.wanted > 0

    def find(self) -> Task | None:
        """Return a random poison task: other supervisors poll, too, and would all start a process for the first."""
        try:
            found = self.database.call(lambda: find_poison(self.serves, self.page, backend=self.options.backend))
        except Unavailable:
            return None
        now = monotonic()
        self.set_aside = {kind: until for kind, until in self.set_aside.items() if until > now}
        begun = {task.pk for task in self.started.values()}
        poison = [task for task in found.tasks if kind_of(task) not in self.set_aside and task.pk not in begun]
        if poison:
            return random.choice(poison)  # noqa: S311 - spreads load
        self.page = found.next_page
        if self.page:  # a page of those that only others can run hides nobody behind it
            self.looking.soon(AGAIN_SECONDS)
        return None

    def start(self, task: Task) -> ChildProcess | None:
        name, task_id = short_name(task.func_path), short_id(task.pk)
        logger.warning("the process of %s %s died twice in a row: it runs alone now", name, task_id)
        child = self.pool.start_alone(task)
        if child is None:
            self.looking.soon(AGAIN_SECONDS)
        else:
            self.started[child] = task
            self.looking.soon()
        return child

    def serves(self, queue: str) -> bool:
        return serves(queue, self.options.queues, self.options.exclude)


def kind_of(task: Task) -> Kind:
    return task.queue, task.func_path, task.lane
