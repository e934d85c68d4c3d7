"""Prunes finished tasks, old statistics, signals and idle rows; and maintains a partitioned history."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from time import monotonic

from ....taskqueue import (
    forget_idle,
    forget_signals,
    forget_skipped,
    forget_stats,
    maintain_partitions,
    prune_pages,
)
from ...shared.database import DatabaseCaller, Unavailable
from ...shared.interval import Interval

logger = logging.getLogger(__name__)
SECONDS = 3600.0
AGAIN_SECONDS = 30.0
RUN_SECONDS = 0.2
"""Seconds for which one run prunes pages."""
ARCHIVE_SECONDS = 20.0
PAUSE_FACTOR = 20
"""It pauses for so many times as long as it read pages in vain."""


class Prune:
    def __init__(self, backend: str, database: DatabaseCaller) -> None:
        self.backend, self.database = backend, database
        self.interval, self.is_elected = Interval(SECONDS), False
        self.pages = Pages(database, "pruned %d finished tasks")

    def is_due(self) -> bool:
        return self.pages.is_open or (self.is_elected and self.interval.is_due())

    def run(self) -> int:
        if not self.pages.is_open:
            self.pages.begin(prune_pages(backend=self.backend))
            for forget in (forget_stats, forget_skipped, forget_signals, forget_idle):
                self.database.call(lambda forget=forget: forget(backend=self.backend))  # type: ignore[misc]
        try:
            self.pages.advance()
        except Unavailable:
            self.interval.soon(AGAIN_SECONDS)
            raise
        return 0


class Pages:
    """Work that is done page by page, over many ticks: leases are renewed and children heard in between."""

    def __init__(self, database: DatabaseCaller, message: str) -> None:
        self.database, self.message = database, message
        self.pages: Iterator[int] | None = None
        self.empty_seconds = 0.0
        """Time spent on pages with nothing to do."""

    @property
    def is_open(self) -> bool:
        return self.pages is not None

    def begin(self, pages: Iterator[int]) -> None:
        self.pages, self.empty_seconds = pages, 0.0

    def advance(self) -> None:
        """Do as many pages as fit into a run. Unavailable closes them: an iterator that has raised is at its end."""
        pages, self.pages = self.pages, None
        if pages is None:
            return
        done, began = 0, monotonic()
        end = began + RUN_SECONDS
        while began < end:
            page = self.database.call(lambda: next(pages, None))
            if page is None:
                break
            done += page
            last, began = began, monotonic()
            self.empty_seconds += 0.0 if page else began - last
        else:
            self.pages = pages
        if done:
            logger.debug(self.message, done)


class Archive:
    """Maintains a partitioned history: partitions before they are needed, and tasks that succeeded moved into them."""

    def __init__(self, backend: str, database: DatabaseCaller) -> None:
        self.backend = backend
        self.interval, self.is_elected = Interval(ARCHIVE_SECONDS), False
        self.pages = Pages(database, "moved %d finished tasks to their partitions")

    def is_due(self) -> bool:
        return self.pages.is_open or (self.is_elected and self.interval.is_due())

    def run(self) -> int:
        if not self.pages.is_open:
            self.pages.begin(maintain_partitions(self.backend))
        self.pages.advance()
        if not self.pages.is_open:
            # It reads all tasks that wait: the more there are, the less often.
            self.interval.seconds = max(ARCHIVE_SECONDS, PAUSE_FACTOR * self.pages.empty_seconds)
            self.interval.reset()
        return 0
