"""What any worker does for the whole queue: recover leases that expired, enqueue what schedules ask for, and prune."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from uuid import UUID

from ...taskqueue import forget_skipped, forget_stats, prune_pages, recover
from ..shared.database import DatabaseCaller, Unavailable
from ..shared.outcomes import OutcomeRecorder, Recorded
from ..shared.timer import Every
from .schedules import LOOK_SECONDS, ScheduleTicker

logger = logging.getLogger(__name__)
RECOVER_SECONDS = 1.0
PRUNE_SECONDS = 3600.0
PRUNE_AGAIN_SECONDS = 30.0
WORKERS_PER_SECOND = 4


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
        self.pruning = Every(PRUNE_SECONDS)
        self.is_pruner = False
        self.batches: Iterator[int] | None = None
        self.schedules = ScheduleTicker(supervisor_id, backend, database, tell_enqueued)

    def share_with(self, workers: int, *, is_pruner: bool) -> None:
        """With many workers alive, each looks less often, so that the database is asked about as often in all.

        One of them prunes. Two that do, since they disagree for some seconds, only take turns.
        """
        self.is_pruner = is_pruner
        self.recovering.seconds = max(RECOVER_SECONDS, workers / WORKERS_PER_SECOND)
        self.schedules.looking.seconds = max(LOOK_SECONDS, workers / WORKERS_PER_SECOND)

    def tick(self) -> int:
        """Returns how many tasks were recovered or enqueued."""
        return sum(self.attempt(duty) for duty in (self.prune_a_batch, self.recover_expired, self.schedules.tick))

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

    @property
    def is_pruning(self) -> bool:
        return self.batches is not None

    def prune_a_batch(self) -> int:
        if self.is_pruner and self.pruning.is_due():
            self.batches = prune_pages(backend=self.backend)
            self.database.call(lambda: forget_stats(backend=self.backend))
            self.database.call(lambda: forget_skipped(backend=self.backend))
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
