"""Enqueues what schedules ask for, on time, and stops schedules that left the code."""

import logging
from collections.abc import Callable, Sequence
from time import monotonic
from uuid import UUID

from ....taskqueue import Ticked, listed_names, next_due_in, stop_vanished, tick
from ...logs import printable
from ...shared.database import DatabaseCaller
from ...shared.interval import Interval
from .services import Pending

logger = logging.getLogger(__name__)
SECONDS = 1.0
STOP_SECONDS = 5.0
RUN_SECONDS = 1.0  # seconds for which a storm may keep the supervisor from its other work
TROUBLE_SECONDS = 60.0


class Schedules:
    def __init__(
        self,
        worker_id: str,
        backend: str,
        database: DatabaseCaller,
        pending: Pending,
        send_enqueued: Callable[[Sequence[UUID]], None],
    ) -> None:
        self.actor, self.backend, self.database = worker_id, backend, database
        self.pending, self.send_enqueued = pending, send_enqueued
        self.listed = listed_names(backend)
        self.interval, self.stopping = Interval(SECONDS), Interval(STOP_SECONDS, at_once=False)
        self.troubled: dict[str, float] = {}
        self.logged: dict[str, str] = {}

    def is_due(self) -> bool:
        return self.pending.found.scheduled

    def run(self) -> int:
        if self.stopping.is_due():
            self.stop_vanished()
        return self.enqueue_due() if self.interval.is_due() and self.is_time() else 0

    def is_time(self) -> bool:
        """Return whether a slot is due. One that is due before the next check is waited for, to be on time."""
        self.troubled = {name: until for name, until in self.troubled.items() if until > monotonic()}
        without = list(self.troubled)
        seconds = self.database.call(lambda: next_due_in(backend=self.backend, listed=self.listed, without=without))
        if seconds is not None and 0 < seconds < SECONDS == self.interval.seconds:
            self.interval.soon(seconds)
        return seconds is not None and seconds <= 0

    def enqueue_due(self) -> int:
        enqueued, end = 0, monotonic() + RUN_SECONDS
        while True:
            ticked = self.tick_once()
            enqueued += ticked.enqueued
            if not ticked.is_full:
                return enqueued
            if monotonic() > end:
                self.interval.soon()
                return enqueued

    def tick_once(self) -> Ticked:
        without = list(self.troubled)
        ticked = self.database.call(
            lambda: tick(backend=self.backend, actor=self.actor, listed=self.listed, without=without)
        )
        for name, why in ticked.troubles.items():
            # For a while, so that rows of which no sense can be made never keep the others waiting.
            self.troubled[name] = monotonic() + TROUBLE_SECONDS
            if self.logged.get(name) != why:
                self.logged[name] = why
                logger.warning("schedule %r is skipped; fix or delete it: %s", name, printable(why))
        self.send_enqueued(ticked.ids)
        return ticked

    def stop_vanished(self) -> None:
        for name in self.database.call(lambda: stop_vanished(backend=self.backend)):
            logger.warning("the schedule %r is stopped: no live worker has it in its code any more", name)
