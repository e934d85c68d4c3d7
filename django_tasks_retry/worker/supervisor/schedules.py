"""The worker's part in schedules: any worker enqueues what is due, on time, and stops what left the code."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from time import monotonic
from uuid import UUID

from ...taskqueue import Ticked, listed_names, next_due_in, stop_vanished, tick
from ..logs import printable
from ..shared.database import DatabaseCaller
from ..shared.timer import Every

logger = logging.getLogger(__name__)
LOOK_SECONDS = 1.0
STOP_SECONDS = 5.0
TURN_SECONDS = 1.0
"""How long a storm may keep the supervisor from its other duties."""
TROUBLE_SECONDS = 60.0


class ScheduleTicker:
    def __init__(
        self, supervisor_id: str, backend: str, database: DatabaseCaller, tell: Callable[[Sequence[UUID]], None]
    ) -> None:
        """`tell` is told which tasks were enqueued."""
        self.tell = tell
        self.actor, self.backend, self.database = supervisor_id, backend, database
        self.listed = listed_names(backend)
        self.looking, self.stopping = Every(LOOK_SECONDS), Every(STOP_SECONDS, at_once=False)
        self.troubled: dict[str, float] = {}

    def tick(self) -> int:
        """Returns how many tasks were enqueued. Raises Unavailable where the database cannot be asked."""
        if self.stopping.is_due():
            self.stop_vanished()
        return self.enqueue_due() if self.looking.is_due() and self.is_time() else 0

    def is_time(self) -> bool:
        """Whether a slot is due. One that will be before the next look is waited for, to be on time."""
        self.troubled = {name: until for name, until in self.troubled.items() if until > monotonic()}
        without = list(self.troubled)
        seconds = self.database.call(lambda: next_due_in(backend=self.backend, listed=self.listed, without=without))
        if seconds is not None and 0 < seconds < LOOK_SECONDS == self.looking.seconds:
            self.looking.hurry(seconds)
        return seconds is not None and seconds <= 0

    def enqueue_due(self) -> int:
        enqueued, end = 0, monotonic() + TURN_SECONDS
        while True:
            ticked = self.tick_once()
            enqueued += ticked.enqueued
            if not ticked.is_full:
                return enqueued
            if monotonic() > end:
                self.looking.hurry()
                return enqueued

    def tick_once(self) -> Ticked:
        without = list(self.troubled)
        ticked = self.database.call(
            lambda: tick(backend=self.backend, actor=self.actor, listed=self.listed, without=without)
        )
        for name, why in ticked.troubles.items():
            # For a while, so that rows of which no sense can be made never keep the others waiting.
            self.troubled[name] = monotonic() + TROUBLE_SECONDS
            logger.warning("the schedule %r is left alone: %s", name, printable(why))
        self.tell(ticked.ids)
        return ticked

    def stop_vanished(self) -> None:
        for name in self.database.call(lambda: stop_vanished(backend=self.backend)):
            logger.warning("the schedule %r is stopped: no live worker has it in its code any more", name)
