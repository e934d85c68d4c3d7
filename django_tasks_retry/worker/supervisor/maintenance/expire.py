"""Cancels tasks that expired before they were started, or passed their deadline."""

from __future__ import annotations

import logging

from ....taskqueue import expire
from ....taskqueue.recording import EXPIRED_AT_ONCE
from ...shared.database import DatabaseCaller
from . import Pending

logger = logging.getLogger(__name__)


class Expire:
    """Cancels a batch in each run; if there are more, the next tick goes on."""

    def __init__(self, worker_id: str, backend: str, database: DatabaseCaller, pending: Pending) -> None:
        self.actor, self.backend, self.database, self.pending = worker_id, backend, database, pending

    def is_due(self) -> bool:
        return self.pending.found.expired

    def run(self) -> int:
        expired = self.database.call(lambda: expire(backend=self.backend, actor=self.actor))
        for task_id in expired:
            logger.debug("task %s expired or passed its deadline", task_id)
        if expired:
            logger.info(
                "cancelled %d tasks that expired before they were started, or passed their deadline", len(expired)
            )
        self.pending.note(expired=len(expired) >= EXPIRED_AT_ONCE)
        return 0
