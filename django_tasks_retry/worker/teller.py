"""Sends `task_finished` from a thread of its own, so that a slow receiver holds up neither claims nor writes."""

from __future__ import annotations

import logging
import threading
from queue import SimpleQueue

from .attempt import Attempt, is_told, tell_finished
from .hygiene import FreshConnections

logger = logging.getLogger("django_tasks_retry")


class Teller:
    def __init__(self) -> None:
        self.line: SimpleQueue[Attempt | None] = SimpleQueue()
        self.thread = threading.Thread(target=self.run, daemon=True, name="django_tasks_retry.teller")
        self.thread.start()

    def tell(self, attempt: Attempt) -> None:
        if is_told(attempt.receipt):
            self.line.put(attempt)

    def run(self) -> None:
        fresh = FreshConnections()
        while (attempt := self.line.get()) is not None:
            try:
                with fresh:
                    tell_finished(attempt)
            except Exception:
                logger.exception("task_finished of %s could not be sent", attempt.lease.id)

    def finish(self) -> None:
        self.line.put(None)
        self.thread.join(timeout=5)
