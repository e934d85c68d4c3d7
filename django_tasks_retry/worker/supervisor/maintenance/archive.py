"""Maintains a partitioned history: partitions before they are needed, and tasks that succeeded moved into them."""

from __future__ import annotations

from ....taskqueue import maintain_partitions
from ...shared.database import DatabaseCaller
from ...shared.interval import Interval
from .prune import Pages

SECONDS = 20.0
PAUSE_FACTOR = 20
"""It pauses for so many times as long as it read pages in vain."""


class Archive:
    def __init__(self, backend: str, database: DatabaseCaller) -> None:
        self.backend = backend
        self.interval, self.is_elected = Interval(SECONDS), False
        self.pages = Pages(database, "moved %d finished tasks to their partitions")

    def is_due(self) -> bool:
        return self.pages.is_open or (self.is_elected and self.interval.is_due())

    def run(self) -> int:
        if not self.pages.is_open:
            self.pages.begin(maintain_partitions(self.backend))
        self.pages.advance()
        if not self.pages.is_open:
            # It reads all tasks that wait: the more there are, the less often.
            self.interval.seconds = max(SECONDS, PAUSE_FACTOR * self.pages.empty_seconds)
            self.interval.reset()
        return 0
