"""What any worker does for the whole queue: recover leases that expired, and prune what is past its retention."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from ...taskqueue import forget_stats, prune_pages, recover
from ..shared.database import DatabaseCaller, Unavailable
from ..shared.outcomes import OutcomeRecorder, Recorded
from ..shared.timer import Every

logger = logging.getLogger(__name__)
RECOVER_SECONDS = 1.0
PRUNE_SECONDS = 3600.0
WORKERS_PER_SECOND = 8


class Maintenance:
    def __init__(self, supervisor_id: str, backend: str, database: DatabaseCaller, recorder: OutcomeRecorder) -> None:
        self.actor, self.backend, self.database, self.recorder = supervisor_id, backend, database, recorder
        self.recovering = Every(RECOVER_SECONDS)
        self.pruning = Every(PRUNE_SECONDS)
        self.batches: Iterator[int] | None = None

    def share_with(self, workers: int) -> None:
        """With many workers alive, each looks less often, so that the database is asked about as often in all."""
        self.recovering.seconds = max(RECOVER_SECONDS, workers / WORKERS_PER_SECOND)

    def tick(self) -> int:
        """Returns how many tasks were recovered."""
        if not self.database.is_available:
            return 0
        try:
            self.prune_a_batch()
            return self.recover_expired() if self.recovering.is_due() else 0
        except Unavailable:
            return 0

    def recover_expired(self) -> int:
        receipts = self.database.call(lambda: recover(backend=self.backend, actor=self.actor))
        for receipt in receipts:
            self.recorder.recorded(Recorded(receipt, receipt.cause), receipt)
        return len(receipts)

    def prune_a_batch(self) -> None:
        if self.pruning.is_due():
            self.batches = prune_pages(backend=self.backend)
            self.database.call(lambda: forget_stats(backend=self.backend))
        if self.batches is None:
            return
        batches = self.batches
        done = self.database.call(lambda: next(batches, None))
        if done:
            logger.debug("pruned %d finished tasks", done)
        elif done is None:
            self.batches = None
