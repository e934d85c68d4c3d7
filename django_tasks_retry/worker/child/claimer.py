"""Claims for one kind of slot: when to ask, and what to do about a claim whose answer was lost."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from time import monotonic

from ...taskqueue import Lanes, Lease, Released, claim, claim_task, finish, leases_of
from ..options import WorkerOptions
from ..shared.database import DatabaseCaller, Unavailable
from .attempt import Attempt

OWN_POLLS = 60
"""A child polls by itself this many times less often than its supervisor."""


class Claimer:
    def __init__(self, worker_id: str, options: WorkerOptions, database: DatabaseCaller, paths: Sequence[str]) -> None:
        self.worker_id, self.options, self.database = worker_id, options, database
        self.lanes = Lanes(options.queues, options.exclude, paths)
        self.claim_now = True
        self.answer_lost = False
        self.next_poll = 0.0

    @property
    def is_due(self) -> bool:
        return self.claim_now or monotonic() >= self.next_poll

    def claim(self, limit: int) -> list[Lease]:
        """Up to `limit` leases. Claims again at once where there may be more."""
        try:
            leases = self.database.call(lambda: self.ask(limit))
        except Unavailable:
            self.answer_lost = True
            return []
        self.claim_now = len(leases) == limit or self.lanes.came_short
        # The supervisor polls for all its children. This is for a wake-up that was lost on its way from there.
        self.next_poll = monotonic() + self.options.poll * OWN_POLLS * random.uniform(0.8, 1.2)  # noqa: S311
        return leases

    def ask(self, limit: int) -> list[Lease]:
        only, backend = self.options.only, self.options.backend
        if only is None:
            return claim(self.worker_id, limit=limit, backend=backend, lanes=self.lanes)
        known = only.func_path in (self.lanes.paths or ())
        lease = claim_task(only, self.worker_id, backend=backend) if known else None
        return [lease] if lease else []

    def release_unanswered(self, attempts: Iterable[Attempt]) -> None:
        """After a lost answer: leases in our name that we know nothing of go back, their attempts refunded."""
        if not self.answer_lost or not self.database.is_available:
            return
        known = {attempt.lease.id for attempt in attempts}
        try:
            leases = self.database.call(lambda: leases_of(self.worker_id, self.options.backend))
            unknown = [Released(lease, "the answer to the claim was lost") for lease in leases if lease.id not in known]
            if unknown:
                self.database.call(lambda: finish(unknown))
        except Unavailable:
            return
        self.answer_lost = False
