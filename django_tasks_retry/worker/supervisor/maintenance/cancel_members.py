"""Cancels members of workflows whose canceller died before it came to them."""

from __future__ import annotations

import logging

from ....taskqueue import CancelSweep
from ...shared.database import DatabaseCaller
from . import Periodic

logger = logging.getLogger(__name__)


class CancelMembers(Periodic):
    def __init__(self, backend: str, database: DatabaseCaller) -> None:
        super().__init__(backend, database)
        self.sweep = CancelSweep(backend)

    def run(self) -> int:
        cancelled = self.database.call(self.sweep)
        if cancelled:
            logger.info("cancelled %d members of workflows that were cancelled", len(cancelled))
        if self.sweep.is_behind:
            self.interval.soon()
        return 0
