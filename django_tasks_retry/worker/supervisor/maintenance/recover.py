"""Recovers expired leases of all workers."""

from __future__ import annotations

from time import monotonic

from ....conf import options
from ....taskqueue import recover
from ...shared.database import DatabaseCaller
from ...shared.outcomes import AttemptResult, OutcomePublisher
from . import Pending

OWNER_SECONDS = 3.0
"""Seconds that an expired lease is left to its owner, or half a lease: supervisors renew at least as often."""
MOST_RECOVERED = 1000


class Recover:
    """Lets owners go first: while a lock kept all from writing, they could not renew, and do so after it."""

    def __init__(
        self, worker_id: str, backend: str, database: DatabaseCaller, pending: Pending, publisher: OutcomePublisher
    ) -> None:
        self.actor, self.backend, self.database = worker_id, backend, database
        self.pending, self.publisher = pending, publisher
        self.patience = min(OWNER_SECONDS, options(backend).lease / 2)
        self.writable_since: float | None = None
        """Since when leases have expired and everybody could write."""

    def is_due(self) -> bool:
        if not self.pending.found.lost:
            self.writable_since = None
        return self.pending.found.lost

    def run(self) -> int:
        since, self.writable_since = self.writable_since, None
        if since is None:
            self.database.call(lambda: recover(backend=self.backend, actor=self.actor, limit=0))
            since = monotonic()
        if monotonic() < since + self.patience:
            self.writable_since = since
            return 0
        receipts = self.database.call(lambda: recover(backend=self.backend, actor=self.actor, limit=MOST_RECOVERED))
        more = len(receipts) >= MOST_RECOVERED
        self.pending.note(lost=more)
        self.writable_since = since if more else None
        for receipt in receipts:
            self.publisher.publish(AttemptResult(receipt, receipt.cause))
        return len(receipts)
