"""Sends `task_finished` from a thread of its own, so that a slow receiver holds up neither claims nor writes."""

from __future__ import annotations

import threading
from queue import SimpleQueue

from .attempt import Attempt, tell_finished


class Teller:
    def __init__(self) -> None:
        self.line: SimpleQueue[Attempt | None] = SimpleQueue()
        self.thread = threading.Thread(target=self.run, daemon=True, name="django_tasks_retry.teller")
        self.thread.start()

    def tell(self, attempt: Attempt) -> None:
        self.line.put(attempt)

    def run(self) -> None:
        while (attempt := self.line.get()) is not None:
            tell_finished(attempt)

    def finish(self) -> None:
        self.line.put(None)
        self.thread.join(timeout=5)
