"""Wakes tasks whose waker died between its commit and the wake."""

from __future__ import annotations

from ....taskqueue import Sweep
from ...shared.database import DatabaseCaller
from . import Pending, Periodic


class Wake(Periodic):
    seconds = 0.5

    def __init__(self, backend: str, database: DatabaseCaller, pending: Pending) -> None:
        super().__init__(backend, database)
        self.pending, self.sweep = pending, Sweep(backend)

    def is_due(self) -> bool:
        return self.pending.found.waiting and super().is_due()

    def run(self) -> int:
        woken = self.database.call(self.sweep)
        if self.sweep.is_behind:
            self.interval.soon()
        return len(woken)
