"""Isolation: a task that has killed its process again and again gets one of its own, so that it takes nobody along."""

from __future__ import annotations

import logging

from ...rules.names import short_id, short_name
from ...rules.queues import serves
from ...taskqueue import find_suspects
from ..options import WorkerOptions
from ..shared.database import DatabaseCaller, Unavailable
from ..shared.timer import Every
from .child_process import ChildProcess
from .pool import ChildPool

logger = logging.getLogger(__name__)
LOOK_SECONDS = 10.0
"""Between looks for what other supervisors left behind. After a crash of an own child it looks at once."""

AGAIN_SECONDS = 1.0
"""Where the system had no room for a process."""


class Isolation:
    def __init__(self, options: WorkerOptions, database: DatabaseCaller, pool: ChildPool) -> None:
        self.options, self.database, self.pool = options, database, pool
        self.looking = Every(LOOK_SECONDS)

    def tick(self) -> ChildProcess | None:
        """A child that was started for a suspect; one at a time."""
        if any(child.is_alone for child in self.pool.children):
            self.looking.hurry()
            return None
        if not self.database.is_available or not self.looking.is_due():
            return None
        try:
            suspects = self.database.call(lambda: find_suspects(self.serves, backend=self.options.backend))
        except Unavailable:
            return None
        if not suspects:
            return None
        suspect = suspects[0]
        name, task_id = short_name(suspect.func_path), short_id(suspect.pk)
        logger.warning("%s %s has killed its process before: it runs alone now", name, task_id)
        child = self.pool.start_alone(suspect)
        if child is None:
            self.looking.hurry(AGAIN_SECONDS)
        return child

    def serves(self, queue: str) -> bool:
        return serves(queue, self.options.queues, self.options.exclude)
