"""The outbox: reports are kept until they are recorded, under their fences, however long the database is away."""

import logging
from collections.abc import Iterable
from time import monotonic

from ...errors import LostReason
from ...taskqueue import Fence, Receipt, record, recorded_receipts
from ..logs import log_exception
from ..shared.database import DatabaseCaller, Rejected, Unavailable
from ..shared.inflight import InFlightTable
from .attempt import Attempt, valid_from
from .claimer import Successors

logger = logging.getLogger(__name__)
BUSY_SECONDS = 0.2


class Outbox:
    def __init__(self, database: DatabaseCaller, inflight: InFlightTable, lease: float) -> None:
        self.database, self.inflight, self.lease = database, inflight, lease
        self.pending: list[Attempt] = []
        self.busy: list[Attempt] = []
        self.busy_until = 0.0
        self.in_doubt = False

    def __bool__(self) -> bool:
        return bool(self.pending or self.busy)

    def add(self, attempts: Iterable[Attempt]) -> None:
        self.pending += attempts

    @property
    def next_try(self) -> float:
        return self.database.try_after if self.pending else max(self.database.try_after, self.busy_until)

    def write(self, successors: Successors | None = None) -> list[Attempt]:
        """Record all pending reports in one statement, and claim successors with them. Return what was answered."""
        if self.busy and monotonic() >= self.busy_until:
            self.pending, self.busy = self.pending + self.busy, []
        if not self.pending or not self.database.is_available:
            return []
        batch = self.pending
        try:
            self.accept(batch, self.receipts(batch, successors))
        except Unavailable as error:
            if successors is not None:
                successors.forget()
            if isinstance(error, Rejected):
                return self.write_one_by_one(batch)
            self.in_doubt = True
            return []
        self.pending, self.in_doubt = self.pending[len(batch) :], False
        return self.answered(batch)

    def write_one_by_one(self, batch: list[Attempt]) -> list[Attempt]:
        """Record reports one by one: one that the database refuses must not hold back the others."""
        written = []
        for attempt in batch:
            try:
                self.accept([attempt], self.receipts([attempt]))
            except Rejected:
                lease = attempt.lease
                log_exception(logger, "outcome of %s %s refused; its lease will expire", lease.func_path, lease.id)
            except Unavailable:
                self.in_doubt = True
                break
            written.append(attempt)
        self.pending = [attempt for attempt in self.pending if attempt not in written]
        return self.answered(written)

    def answered(self, written: list[Attempt]) -> list[Attempt]:
        """Return those that are done. An attempt whose row is locked waits alone, and is tried again."""
        busy = [attempt for attempt in written if self.is_busy(attempt)]
        if not busy:
            return written
        self.busy += busy
        self.busy_until = monotonic() + BUSY_SECONDS
        return [attempt for attempt in written if attempt not in busy]

    def is_busy(self, attempt: Attempt) -> bool:
        """Return whether to write again: the row is locked, or the lease expired and is about to be renewed."""
        receipt = attempt.receipt
        if receipt is not None and receipt.lost is LostReason.EXPIRED:
            return monotonic() < valid_from(attempt, self.inflight) + self.lease
        return receipt is not None and receipt.is_busy

    def receipts(self, batch: list[Attempt], successors: Successors | None = None) -> list[Receipt]:
        reports = [attempt.report for attempt in batch if attempt.report]
        if successors is None:
            return self.database.call(lambda: record(reports))
        return self.database.call(lambda: successors.claim_after(lambda: record(reports)))

    def accept(self, batch: list[Attempt], receipts: list[Receipt]) -> None:
        """Keep the receipts. After a lost answer, a rejected report may have been recorded before: read it again."""
        rejected = [receipt.lease for receipt in receipts if not receipt.accepted]
        recorded: dict[Fence, Receipt] = {}
        if self.in_doubt and rejected:
            recorded = self.database.call(lambda: recorded_receipts(rejected, rejected[0].backend))
        for attempt, receipt in zip(batch, receipts, strict=True):
            attempt.receipt = recorded.get(receipt.lease.fence, receipt)
