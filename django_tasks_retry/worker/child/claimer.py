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
SHORTEST_WAIT = 0.02


class Claimer:
    def __init__(self, worker_id: str, options: WorkerOptions, database: DatabaseCaller, paths: Sequence[str]) -> None:
        self.worker_id, self.options, self.database = worker_id, options, database
        self.lanes = Lanes(options.queues, options.exclude, paths)
        self.claim_now, self.wanted_since = True, monotonic()
        self.answer_lost = False
        self.next_poll = 0.0

    @property
    def is_due(self) -> bool:
        return self.claim_now or monotonic() >= self.next_poll

    @property
    def due_since(self) -> float:
        return self.wanted_since if self.claim_now else self.next_poll

    def claim(self, limit: int, at_once: int) -> list[Lease]:
        """Up to `limit` leases; of limited lanes, `at_once` at most. Claims again at once where there may be more."""
        try:
            leases = self.database.call(lambda: self.ask(limit, at_once))
        except Unavailable:
            self.answer_lost = True
            return []
        self.rest()
        if len(leases) == limit or self.lanes.came_short:
            self.hurry()
        return leases

    def hurry(self) -> None:
        """There may be more to claim."""
        self.claim_now, self.wanted_since = True, monotonic()

    def rest(self) -> None:
        """There is nothing more, as far as is known."""
        self.claim_now = False
        spread = random.uniform(0.8, 1.2)  # noqa: S311 - spreads load
        now = monotonic()
        # What was full, or had started too often, is asked for again when it may have room; not before.
        opens_in = max(SHORTEST_WAIT, (self.lanes.opens_at - now) * (spread + 0.2))
        # The supervisor polls for all its children. This is for a wake-up that was lost on its way from there; but of
        # lanes with a key each claimer sees a part, and goes round by itself.
        poll = self.options.poll * (1 if self.lanes.has_keyed else OWN_POLLS)
        self.next_poll = now + min(poll * spread, opens_in)

    def has_seen_nothing(self, since: float) -> bool:
        """Whether it has looked since then, and no task was due for anybody."""
        return self.lanes.found_none_at > since and not self.lanes.has_keyed

    def note_ended(self, lease: Lease) -> None:
        """A permit is free: where its lane was full, it is claimed from again at once."""
        if self.lanes.reopen(lease.lane, f"queue:{lease.queue}", f"function:{lease.func_path}"):
            self.hurry()

    def ask(self, limit: int, at_once: int) -> list[Lease]:
        only, backend = self.options.only, self.options.backend
        if only is None:
            return claim(self.worker_id, limit=limit, backend=backend, lanes=self.lanes, at_once=at_once)
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
