"""What any worker does for the whole queue: recover leases, cancel what expired, enqueue by schedules, and prune."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from uuid import UUID

from ...taskqueue import (
    Sweep,
    expire,
    forget_idle,
    forget_signals,
    forget_skipped,
    forget_stats,
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
RECOVER_SECONDS = 1.0
SWEEP_SECONDS = 0.5
EXPIRE_SECONDS = 1.0
PRUNE_SECONDS = 3600.0
PRUNE_AGAIN_SECONDS = 30.0
WORKERS_PER_SECOND = 4
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
        self.recovering = Every(RECOVER_SECONDS)
        self.sweeping, self.sweep = Every(SWEEP_SECONDS), Sweep(backend)
        self.expiring = Every(EXPIRE_SECONDS)
        self.pruning = Every(PRUNE_SECONDS)
        self.is_pruner = False
        self.breaking = Every(BREAKER_SECONDS)
        self.batches: Iterator[int] | None = None
        self.schedules = ScheduleTicker(supervisor_id, backend, database, tell_enqueued)
        self.duties = (
            self.prune_a_batch,
            self.recover_expired,
            self.expire_waiting,
            self.wake_waiting,
            self.tick_breakers,
            self.schedules.tick,
        )

    def share_with(self, workers: int, *, is_pruner: bool) -> None:
        """With many workers alive, each looks less often, so that the database is asked about as often in all.

        One of them prunes. Two that do, since they disagree for some seconds, only take turns.
        """
        self.is_pruner = is_pruner
        self.recovering.seconds = max(RECOVER_SECONDS, workers / WORKERS_PER_SECOND)
        self.expiring.seconds = max(EXPIRE_SECONDS, workers / WORKERS_PER_SECOND)
        self.sweeping.seconds = max(SWEEP_SECONDS, workers / WORKERS_PER_SECOND)
        self.schedules.looking.seconds = max(LOOK_SECONDS, workers / WORKERS_PER_SECOND)
        self.breaking.seconds = max(BREAKER_SECONDS, workers / WORKERS_PER_SECOND)

    def tick(self) -> int:
        """Returns how many tasks were recovered, woken or enqueued."""
        return sum(self.attempt(duty) for duty in self.duties)

    def tick_breakers(self) -> int:
        """Pause functions and lanes that fail too often, and try again those that did."""
        if self.breaking.is_due():
            self.database.call(lambda: tick_breakers(self.backend))
        return 0

    def attempt(self, duty: Callable[[], int]) -> int:
        try:
            return duty() if self.database.is_available else 0
        except Unavailable:
            return 0

    def recover_expired(self) -> int:
        if not self.recovering.is_due():
            return 0
        receipts = self.database.call(lambda: recover(backend=self.backend, actor=self.actor))
        for receipt in receipts:
            self.recorder.recorded(Recorded(receipt, receipt.cause), receipt)
        return len(receipts)

    def wake_waiting(self) -> int:
        """Tasks whose waker died between its commit and the wake; where a crowd waited, again in the next round."""
        if not self.sweeping.is_due():
            return 0
        woken = self.database.call(self.sweep)
        if self.sweep.is_behind:
            self.sweeping.hurry()
        return len(woken)

    @property
    def is_pruning(self) -> bool:
        return self.batches is not None

    def expire_waiting(self) -> int:
        """A bounded number at once; where there are more, again in the next round."""
        if self.expiring.is_due():
            expired = self.database.call(lambda: expire(backend=self.backend, actor=self.actor))
            for task_id in expired:
                logger.debug("task %s expired before it was started", task_id)
            if expired:
                logger.info("cancelled %d tasks that expired before they were started", len(expired))
            if len(expired) >= BATCH:
                self.expiring.hurry()
        return 0

    def prune_a_batch(self) -> int:
        if self.is_pruner and self.pruning.is_due():
            self.batches = prune_pages(backend=self.backend)
            self.database.call(lambda: forget_stats(backend=self.backend))
            self.database.call(lambda: forget_skipped(backend=self.backend))
            self.database.call(lambda: forget_signals(backend=self.backend))
            self.database.call(lambda: forget_idle(self.backend))
        if self.batches is None:
            return 0
        batches = self.batches
        try:
            done = self.database.call(lambda: next(batches, None))
        except Unavailable:
            # An iterator that was interrupted is at its end, which must not be taken for an answer of the database.
            self.batches = None
            self.pruning.hurry(PRUNE_AGAIN_SECONDS)
            raise
        if done:
            logger.debug("pruned %d finished tasks", done)
        elif done is None:
            self.batches = None
        return 0
