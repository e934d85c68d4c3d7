"""Maintenance: what any worker does for the whole queue, one service a module, behind one Protocol."""

from __future__ import annotations

from typing import Protocol

from ....taskqueue import PendingMaintenance, find_pending_maintenance
from ...shared.database import DatabaseCaller
from ...shared.interval import Interval


class Service(Protocol):
    def is_due(self) -> bool: ...

    def run(self) -> int:
        """Return how many tasks became due by it. Raises Unavailable if the database cannot be asked."""


class Periodic:
    """A service that is due every few seconds; all workers together ask so many times a second at the most."""

    seconds, times_a_second = 5.0, 2

    def __init__(self, backend: str, database: DatabaseCaller) -> None:
        self.backend, self.database = backend, database
        self.interval = Interval(self.seconds)

    def is_due(self) -> bool:
        return self.interval.is_due()

    def share_with(self, workers: int) -> None:
        """Ask less often while many workers are alive."""
        self.interval.seconds = max(self.seconds, workers / self.times_a_second)


class Pending(Periodic):
    """Asks one question for all services: each would ask its own several times a second, and mostly in vain."""

    seconds, times_a_second = 1.0, 4
    found = PendingMaintenance()

    def run(self) -> int:
        self.found = self.database.call(lambda: find_pending_maintenance(backend=self.backend))
        return 0

    def note(self, **found: bool) -> None:
        """A service has found out more since."""
        self.found = self.found._replace(**found)
