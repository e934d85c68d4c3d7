"""What any worker does for the whole queue: take back lost leases, and prune what is past its retention."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from ..rules.status import Status
from ..taskqueue import forget_stats, prune, recover
from .timer import Every
from .weather import Trouble, Weather

logger = logging.getLogger("django_tasks_retry")
RECOVER_SECONDS = 1.0
PRUNE_SECONDS = 3600.0
WORKERS_PER_SECOND = 8


class Housekeeper:
    def __init__(self, backend: str, weather: Weather) -> None:
        self.backend, self.weather = backend, weather
        self.recovering = Every(RECOVER_SECONDS)
        self.pruning = Every(PRUNE_SECONDS)
        self.batches: Iterator[int] = iter(())

    def share_with(self, workers: int) -> None:
        """With many workers alive, each looks less often, so that the database is asked about as often in all."""
        self.recovering.seconds = max(RECOVER_SECONDS, workers / WORKERS_PER_SECOND)

    def turn(self, actor: str) -> int:
        """Returns how many tasks were taken back."""
        if not self.weather.is_fine:
            return 0
        try:
            self.prune_a_batch()
            return self.take_back(actor) if self.recovering.is_due() else 0
        except Trouble:
            return 0

    def take_back(self, actor: str) -> int:
        taken = self.weather.ask(lambda: recover(backend=self.backend, actor=actor))
        for receipt in taken:
            task, ended = receipt.lease, " · no attempt left, FAILED" if receipt.status is Status.FAILED else ""
            logger.warning("lease of %s on %s %s expired%s", task.locked_by, task.func_path, task.id, ended)
        return len(taken)

    def prune_a_batch(self) -> None:
        if self.pruning.is_due():
            self.batches = prune(backend=self.backend)
            self.weather.ask(lambda: forget_stats(backend=self.backend))
        done = self.weather.ask(lambda: next(self.batches, 0))
        if done:
            logger.debug("pruned %d finished tasks", done)
