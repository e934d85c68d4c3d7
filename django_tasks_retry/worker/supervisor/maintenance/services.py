"""Services: what any worker does for the whole queue, behind one Protocol."""

import logging
from collections.abc import Iterator
from time import monotonic
from typing import Protocol

from .... import taskqueue
from ....conf import options
from ....taskqueue.recording import EXPIRED_AT_ONCE
from ...shared.database import DatabaseCaller, Unavailable
from ...shared.interval import Interval
from ...shared.outcomes import AttemptResult, OutcomePublisher

logger = logging.getLogger(__name__)
OWNER_SECONDS = 3.0
"""Seconds that an expired lease is left to its owner, or half a lease: supervisors renew at least as often."""
MOST_RECOVERED = 1000


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
    found = taskqueue.PendingMaintenance()

    def run(self) -> int:
        self.found = self.database.call(lambda: taskqueue.find_pending_maintenance(backend=self.backend))
        return 0

    def note(self, **found: bool) -> None:
        """A service has found out more since."""
        self.found = self.found._replace(**found)


class Breakers(Periodic):
    """Opens the circuit breakers of functions and lanes that fail too often, and tries those that are open."""

    def run(self) -> int:
        self.database.call(lambda: taskqueue.tick_breakers(self.backend))
        return 0


class CancelMembers(Periodic):
    """Cancels members of workflows whose canceller died before it came to them."""

    def __init__(self, backend: str, database: DatabaseCaller) -> None:
        super().__init__(backend, database)
        self.sweep = taskqueue.CancelSweep(backend)

    def run(self) -> int:
        cancelled = self.database.call(self.sweep)
        if cancelled:
            logger.info("cancelled %d members of workflows that were cancelled", len(cancelled))
        if self.sweep.is_behind:
            self.interval.soon()
        return 0


class Wake(Periodic):
    """Wakes tasks whose waker died between its commit and the wake."""

    seconds = 0.5

    def __init__(self, backend: str, database: DatabaseCaller, pending: Pending) -> None:
        super().__init__(backend, database)
        self.pending, self.sweep = pending, taskqueue.Sweep(backend)
        self.canaries = taskqueue.CanarySweep(backend)

    def is_due(self) -> bool:
        return self.pending.found.waiting and super().is_due()

    def run(self) -> int:
        woken = self.database.call(self.sweep) + self.database.call(self.canaries)
        if self.sweep.is_behind:
            self.interval.soon()
        return len(woken)


class Expire:
    """Cancels a batch of tasks that expired, or passed their deadline. If there are more, the next tick goes on."""

    def __init__(self, worker_id: str, backend: str, database: DatabaseCaller, pending: Pending) -> None:
        self.actor, self.backend, self.database, self.pending = worker_id, backend, database, pending

    def is_due(self) -> bool:
        return self.pending.found.expired

    def run(self) -> int:
        expired = self.database.call(lambda: taskqueue.expire(backend=self.backend, actor=self.actor))
        for task_id in expired:
            logger.debug("task %s expired or passed its deadline", task_id)
        if expired:
            logger.info(
                "cancelled %d tasks that expired before they were started, or passed their deadline", len(expired)
            )
        self.pending.note(expired=len(expired) >= EXPIRED_AT_ONCE)
        return 0


class Recover:
    """Recovers expired leases of all workers.

    Lets owners go first: while a lock kept all from writing, they could not renew, and do so after it.
    """

    def __init__(
        self, worker_id: str, backend: str, database: DatabaseCaller, pending: Pending, publisher: OutcomePublisher
    ) -> None:
        self.actor, self.backend, self.database = worker_id, backend, database
        self.pending, self.publisher = pending, publisher
        self.patience = min(OWNER_SECONDS, options(backend).lease / 2)
        self.writable_since: float | None = None  # since when leases have expired and everybody could write

    def is_due(self) -> bool:
        if not self.pending.found.lost:
            self.writable_since = None
        return self.pending.found.lost

    def run(self) -> int:
        since, self.writable_since = self.writable_since, None
        if since is None:
            self.database.call(lambda: taskqueue.recover(backend=self.backend, actor=self.actor, limit=0))
            since = monotonic()
        if monotonic() < since + self.patience:
            self.writable_since = since
            return 0
        receipts = self.database.call(
            lambda: taskqueue.recover(backend=self.backend, actor=self.actor, limit=MOST_RECOVERED)
        )
        more = len(receipts) >= MOST_RECOVERED
        self.pending.note(lost=more)
        self.writable_since = since if more else None
        for receipt in receipts:
            self.publisher.publish(AttemptResult(receipt, receipt.cause))
        return len(receipts)


PRUNE_SECONDS = 3600.0
AGAIN_SECONDS = 30.0
RUN_SECONDS = 0.2  # seconds for which one run prunes pages
ARCHIVE_SECONDS = 20.0
PAUSE_FACTOR = 20  # it pauses for so many times as long as it read pages in vain


class Paged:
    """A service of the elected worker, page by page over many ticks: leases are renewed and children heard between."""

    seconds, message = PRUNE_SECONDS, ""

    def __init__(self, backend: str, database: DatabaseCaller) -> None:
        self.backend, self.database = backend, database
        self.interval, self.is_elected = Interval(self.seconds), False
        self.pages: Iterator[int] | None = None
        self.empty_seconds = 0.0  # time spent on pages with nothing to do

    @property
    def is_open(self) -> bool:
        return self.pages is not None

    def is_due(self) -> bool:
        return self.is_open or (self.is_elected and self.interval.is_due())

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


class Prune(Paged):
    message = "pruned %d finished tasks"

    def run(self) -> int:
        if not self.is_open:
            self.begin(taskqueue.prune_pages(backend=self.backend))
            for forget in (
                taskqueue.forget_stats,
                taskqueue.forget_skipped,
                taskqueue.forget_signals,
                taskqueue.forget_idle,
            ):
                self.database.call(lambda forget=forget: forget(backend=self.backend))  # type: ignore[misc]
        try:
            self.advance()
        except Unavailable:
            self.interval.soon(AGAIN_SECONDS)
            raise
        return 0


class Archive(Paged):
    """Maintains a partitioned history: partitions before they are needed, and tasks that succeeded moved into them."""

    seconds, message = ARCHIVE_SECONDS, "moved %d finished tasks to their partitions"

    def run(self) -> int:
        if not self.is_open:
            self.begin(taskqueue.maintain_partitions(self.backend))
        self.advance()
        if not self.is_open:
            # It reads all tasks that wait: the more there are, the less often.
            self.interval.seconds = max(ARCHIVE_SECONDS, PAUSE_FACTOR * self.empty_seconds)
            self.interval.reset()
        return 0
