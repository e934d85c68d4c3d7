"""Arrivals: what is done about work that was heard of or found.

A wake-up reaches every worker, but is for two of them. The first wakes one child; the second looks a moment later
whether the task is still there, in case the first is held up. A child that claimed as many as it could says so, and two
more are woken. Where none is left with room, the message is handed on to twice as many workers, who wake a child each.
So a lone task makes one child claim, however many there are, and a burst soon has them all.

Polling is the truth: each supervisor looks for itself, whether or not it is asked, and wakes another child each time
that it finds work.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from ....rules.queues import serves
from ....taskqueue import Lanes, Peer, is_work_due
from ....taskqueue.producer.wakeup import Kind, WakeUp, notify_more
from ...options import WorkerOptions
from ...shared.database import DatabaseCaller, Unavailable
from ...shared.timer import Every
from ..pool import ChildPool
from .children import wake
from .peers import Peers

WORKERS_ASKED = 2
CHILDREN_MORE = 2
STAND_IN_SECONDS = 0.05
"""How long the first worker has to claim what the second would find."""
HAND_ON_SECONDS, LONGEST_HAND_ON = 0.2, 3.2
MOST_POLLS = 4


class Asked(NamedTuple):
    """How many workers a message asks, about which queue; and whether this one is to act, or to see that others do."""

    workers: int
    queue: str
    at_once: bool


class Arrivals:
    def __init__(self, worker_id: str, options: WorkerOptions, database: DatabaseCaller, pool: ChildPool) -> None:
        self.options, self.database, self.pool = options, database, pool
        self.peers = Peers(worker_id)
        self.lanes = Lanes(options.queues, options.exclude)
        self.polling = Every(options.poll)
        self.handing_on = Every(HAND_ON_SECONDS)
        self.queue, self.asked = "", WORKERS_ASKED
        self.claims, self.has_skipped = 0, False

    def learn(self, alive: list[Peer], *, listening: bool) -> None:
        """Who else is alive. A worker that hears nothing looks more often."""
        self.peers.learn(alive)
        self.polling.seconds = self.options.poll / (1 if listening else min(MOST_POLLS, self.options.processes))

    # What was heard

    def hear(self, messages: Iterable[WakeUp]) -> None:
        ours = [found for message in messages if (found := self.read(message))]
        if ours:
            self.asked, self.queue, _ = max(ours)
            if not any(asked.at_once for asked in ours):
                self.stand_in()
            elif not self.wake(1):
                self.hand_on()

    def stand_in(self) -> None:
        """Look soon, whether or not it is our turn to."""
        self.has_skipped = True
        self.polling.hurry(STAND_IN_SECONDS)

    def read(self, message: WakeUp) -> Asked | None:
        """What it asks, where this worker is one of those that it is for."""
        asked, queue = WORKERS_ASKED, message.subject
        if message.kind is Kind.MORE:
            number, _, queue = message.subject.partition(":")
            asked = int(number) if number.isdecimal() else 0
        elif message.kind is not Kind.WORK:
            return None
        rank = self.peers.rank(queue, message.sender)
        if rank >= asked or not serves(queue, self.options.queues, self.options.exclude):
            return None
        return Asked(asked, queue, at_once=rank == 0 or message.kind is Kind.MORE)

    def note_more(self) -> None:
        """A child claimed as many as it could."""
        if not self.wake(CHILDREN_MORE, fresh=True):
            self.hand_on()

    def wake(self, count: int, *, fresh: bool = False) -> bool:
        has_room = wake(self.pool.working, count, fresh=fresh)
        if has_room:
            self.handing_on.seconds = HAND_ON_SECONDS
        return has_room

    def hand_on(self) -> None:
        """To more workers, if there are more; the less often, the longer there is no room here."""
        if not self.queue or self.asked > len(self.peers.others(self.queue)) or not self.handing_on.is_due():
            return
        self.handing_on.seconds = min(LONGEST_HAND_ON, self.handing_on.seconds * 2)
        with suppress(Unavailable):
            self.database.call(lambda: notify_more(self.asked * 2, self.queue, self.database.using))

    # What is found

    def poll(self) -> None:
        """Where it is due; every other time while children claim, who look themselves and say where they leave some."""
        if not self.database.is_available or not self.polling.is_due():
            return
        claims = sum(child.inflight.claims for child in self.pool.working)
        claimed, self.claims = claims != self.claims, claims
        self.has_skipped = claimed and not self.has_skipped
        if self.has_skipped:
            return
        with suppress(Unavailable):
            self.wake_for_found(is_due=self.database.call(lambda: is_work_due(self.lanes, self.options.backend)))

    def wake_for_found(self, *, is_due: bool) -> None:
        """Another child each time: the last one may be held up."""
        if is_due:
            self.queue, self.asked = self.lanes.lanes[0].queue, WORKERS_ASKED
            self.wake(1, fresh=True)
