"""What any worker does for the whole queue: recover leases, cancel what expired, enqueue by schedules, and prune."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from uuid import UUID

from ...taskqueue import (
    Duties,
    Sweep,
    expire,
    find_duties,
    forget_idle,
    forget_signals,
    forget_skipped,
    forget_stats,
    keep_up,
    prune_pages,
    recover,
    tick_breakers,
)
from ...taskqueue.consumer.expire import BATCH
from ..shared.database import DatabaseCaller, Unavailable
from ..shared.outcomes import OutcomeRecorder, Recorded
from ..shared.timer import Every
from .schedules import LOOK_SECONDS, ScheduleTicker

logger = logging.getLogger(__name__)
SWEEP_SECONDS = 0.5
PRUNE_SECONDS = 3600.0
PRUNE_AGAIN_SECONDS = 30.0
ARCHIVE_SECONDS = 20.0
ARCHIVE_REST = 20
"""It rests for so many times as long as it looked at pages in vain."""
PAGES_SECONDS = 0.2
"""How long one turn goes on with pages: leases are renewed and children heard in between."""
URGENT_A_SECOND, OTHERS_A_SECOND = 4, 2
"""How often all workers together look for what must be done."""
BREAKER_SECONDS = 5.0


class Maintenance:
    def __init__(
        self,
        supervisor_id: str,
        backend: str,
        database: DatabaseCaller,
        recorder: OutcomeRecorder,
        tell_enqueued: Callable[[Sequence[UUID]], None],
    ) -> None:
        self.actor, self.backend, self.database, self.recorder = supervisor_id, backend, database, recorder
        self.looking, self.found = Every(LOOK_SECONDS), Duties()
        self.sweeping, self.sweep = Every(SWEEP_SECONDS), Sweep(backend)
        self.pruning, self.archiving = Every(PRUNE_SECONDS), Every(ARCHIVE_SECONDS)
        self.is_pruner = False
        self.breaking = Every(BREAKER_SECONDS)
        self.batches: Iterator[int] | None = None
        self.moves: Iterator[int] | None = None
        self.vain_seconds = 0.0
        self.schedules = ScheduleTicker(supervisor_id, backend, database, tell_enqueued)
        self.duties = (
            self.prune_pages,
            self.archive_pages,
            self.look,
            self.recover_expired,
            self.expire_waiting,
            self.wake_waiting,
            self.tick_breakers,
            self.enqueue_scheduled,
        )

    def share_with(self, workers: int, *, is_pruner: bool) -> None:
        """With many workers alive, each looks less often, so that the database is asked about as often in all.

        One of them prunes. Two that do, since they disagree for some seconds, only take turns.
        """
        self.is_pruner = is_pruner
        self.looking.seconds = self.schedules.looking.seconds = max(LOOK_SECONDS, workers / URGENT_A_SECOND)
        self.sweeping.seconds = max(SWEEP_SECONDS, workers / OTHERS_A_SECOND)
        self.breaking.seconds = max(BREAKER_SECONDS, workers / OTHERS_A_SECOND)

    def tick(self) -> int:
        """Returns how many tasks were recovered, woken or enqueued. A duty that fails is told of after the others."""
        done, failed = 0, []
        for duty in self.duties:
            try:
                done += duty() if self.database.is_available else 0
            except Unavailable:
                continue
            except Exception as error:
                failed.append(error)
        if failed:
            raise failed[0]
        return done

    def tick_breakers(self) -> int:
        """Pause functions and lanes that fail too often, and try again those that did."""
        if self.breaking.is_due():
            self.database.call(lambda: tick_breakers(self.backend))
        return 0

    def look(self) -> int:
        """One question for all: a worker with nothing to do would ask several a second, each of them in vain."""
        if self.looking.is_due():
            self.found = self.database.call(lambda: find_duties(backend=self.backend))
        return 0

    def recover_expired(self) -> int:
        if not self.found.lost:
            return 0
        receipts = self.database.call(lambda: recover(backend=self.backend, actor=self.actor))
        self.found = self.found._replace(lost=False)
        for receipt in receipts:
            self.recorder.recorded(Recorded(receipt, receipt.cause), receipt)
        return len(receipts)

    def wake_waiting(self) -> int:
        """Tasks whose waker died between its commit and the wake; where a crowd waited, again in the next round."""
        if not (self.found.waiting and self.sweeping.is_due()):
            return 0
        woken = self.database.call(self.sweep)
        if self.sweep.is_behind:
            self.sweeping.hurry()
        return len(woken)

    @property
    def is_pruning(self) -> bool:
        return self.batches is not None or self.moves is not None

    def expire_waiting(self) -> int:
        """A bounded number at once; where there are more, again in the next round."""
        if self.found.expired:
            expired = self.database.call(lambda: expire(backend=self.backend, actor=self.actor))
            for task_id in expired:
                logger.debug("task %s expired before it was started", task_id)
            if expired:
                logger.info("cancelled %d tasks that expired before they were started", len(expired))
            self.found = self.found._replace(expired=len(expired) >= BATCH)
        return 0

    @property
    def next_slot_look(self) -> float:
        """When slots are looked at next, by the monotonic clock: one that is due soon is waited for."""
        return self.schedules.looking.next if self.found.scheduled else float("inf")

    def enqueue_scheduled(self) -> int:
        return self.schedules.tick() if self.found.scheduled else 0

    def prune_pages(self) -> int:
        if self.is_pruner and self.pruning.is_due():
            self.batches = prune_pages(backend=self.backend)
            self.database.call(lambda: forget_stats(backend=self.backend))
            self.database.call(lambda: forget_skipped(backend=self.backend))
            self.database.call(lambda: forget_signals(backend=self.backend))
            self.database.call(lambda: forget_idle(self.backend))
        if self.batches is not None:
            try:
                self.batches = self.go_on(self.batches, "pruned %d finished tasks")
            except Unavailable:
                self.batches = None
                self.pruning.hurry(PRUNE_AGAIN_SECONDS)
                raise
        return 0

    def archive_pages(self) -> int:
        """Where history is partitioned: tables ahead of time, and what has succeeded moved into them."""
        if self.is_pruner and self.archiving.is_due():
            self.moves, self.vain_seconds = keep_up(self.backend), 0.0
        if self.moves is not None:
            try:
                self.moves = self.go_on(self.moves, "moved %d finished tasks to their partitions")
            except Unavailable:
                self.moves = None
                raise
            if self.moves is None:
                # It goes through all that waits: where that is much, the less often.
                self.archiving.seconds = max(ARCHIVE_SECONDS, ARCHIVE_REST * self.vain_seconds)
                self.archiving.rest()
        return 0

    def go_on(self, pages: Iterator[int], told: str) -> Iterator[int] | None:
        """As many pages as fit into a turn; the rest of them, or None at their end.

        An iterator that was interrupted is at its end, too, which must not be taken for an answer of the database.
        """
        done, began = 0, monotonic()
        end = began + PAGES_SECONDS
        while began < end:
            page = self.database.call(lambda: next(pages, None))
            if page is None:
                break
            done += page
            last, began = began, monotonic()
            if pages is self.moves and not page:
                self.vain_seconds += began - last
        if done:
            logger.debug(told, done)
        return None if page is None else pages
