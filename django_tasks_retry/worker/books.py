"""A child's books: outcomes are kept until they are written, under their fences, however long the database is away."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ..taskqueue import Fence, Receipt, finish, recorded_receipts
from .attempt import Attempt
from .weather import Refused, Trouble, Weather

logger = logging.getLogger("django_tasks_retry")


class Books:
    def __init__(self, weather: Weather) -> None:
        self.weather = weather
        self.pending: list[Attempt] = []
        self.in_doubt = False

    def add(self, attempts: Iterable[Attempt]) -> None:
        self.pending += attempts

    def write(self) -> list[Attempt]:
        """Write all pending outcomes in one statement. Returns the attempts that were answered."""
        if not self.pending or not self.weather.is_fine:
            return []
        batch = self.pending
        try:
            self.settle(batch, self.answers(batch))
        except Refused:
            return self.write_one_by_one(batch)
        except Trouble:
            self.in_doubt = True
            return []
        self.pending, self.in_doubt = self.pending[len(batch) :], False
        return batch

    def write_one_by_one(self, batch: list[Attempt]) -> list[Attempt]:
        """One outcome that the database refuses must not hold back the others."""
        answered = []
        for attempt in batch:
            try:
                self.settle([attempt], self.answers([attempt]))
            except Refused:
                logger.exception(
                    "outcome of %s %s refused; its lease will expire", attempt.lease.func_path, attempt.lease.id
                )
            except Trouble:
                self.in_doubt = True
                break
            answered.append(attempt)
        self.pending = [attempt for attempt in self.pending if attempt not in answered]
        return answered

    def answers(self, batch: list[Attempt]) -> list[Receipt]:
        return self.weather.ask(lambda: finish([attempt.outcome for attempt in batch if attempt.outcome]))

    def settle(self, batch: list[Attempt], receipts: list[Receipt]) -> None:
        """After an answer was lost, a rejected outcome may be our own, written the first time: reading tells."""
        rejected = [receipt.lease for receipt in receipts if not receipt.accepted]
        written: dict[Fence, Receipt] = {}
        if self.in_doubt and rejected:
            written = self.weather.ask(lambda: recorded_receipts(rejected, rejected[0].backend))
        for attempt, receipt in zip(batch, receipts, strict=True):
            attempt.receipt = written.get(receipt.lease.fence, receipt)
