"""Claims for one kind of slot: when to ask, and what to do about a claim whose answer was lost."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from time import monotonic

from ..taskqueue import Lanes, Lease, Released, claim, finish, leases_of
from .attempt import Attempt
from .options import WorkerOptions
from .weather import Trouble, Weather


class Claimer:
    def __init__(self, worker_id: str, options: WorkerOptions, weather: Weather, paths: Sequence[str]) -> None:
        self.worker_id, self.options, self.weather = worker_id, options, weather
        self.lanes = Lanes(options.queues, options.exclude, paths)
        self.hungry = True
        self.answer_lost = False
        self.next_poll = 0.0

    @property
    def is_due(self) -> bool:
        return self.hungry or monotonic() >= self.next_poll

    def claim(self, limit: int) -> list[Lease]:
        """Up to `limit` leases. Comes back hungry where there may be more."""
        try:
            leases = self.weather.ask(
                lambda: claim(self.worker_id, limit=limit, backend=self.options.backend, lanes=self.lanes)
            )
        except Trouble:
            self.answer_lost = True
            return []
        self.hungry = len(leases) == limit or self.lanes.came_short
        self.next_poll = monotonic() + self.options.poll * random.uniform(0.8, 1.2)  # noqa: S311 - spreads load
        return leases

    def release_ghosts(self, in_flight: Iterable[Attempt]) -> None:
        """After a lost answer: leases in our name that we know nothing of go back, their attempts refunded."""
        if not self.answer_lost:
            return
        known = {attempt.lease.id for attempt in in_flight}
        try:
            held = self.weather.ask(lambda: leases_of(self.worker_id, self.options.backend))
            ghosts = [Released(lease, "the answer to the claim was lost") for lease in held if lease.id not in known]
            self.weather.ask(lambda: finish(ghosts))
        except Trouble:
            return
        self.answer_lost = False
