"""Dispatches notifications, and work that polling found, to children and to other workers.

A wake-up reaches every worker, but is for two of them. The first wakes one child; the second looks a moment later
whether the task is still there, in case the first is held up. A child that claimed as many as it could says so, and two
more are woken. If none is left with room, the message is forwarded to twice as many workers, which wake a child each.
So a lone task makes one child claim, however many there are, and a burst soon has them all.

The first few workers that serve a set of queues listen, since PostgreSQL wakes every session that does. If one of them
ends, the next one takes its place at its next heartbeat.

Polling is the truth: each supervisor polls by itself, whether or not it is asked, and wakes another child each time
that it finds work. Workers of the same queues share the polls.
"""

import logging
import os
import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from hashlib import blake2b
from time import monotonic
from typing import Any, NamedTuple

from django.db import connections
from django.db.utils import Error

from ...models import Worker
from ...rules.queues import serves
from ...taskqueue import ClaimMemory, engine_for, is_work_due
from ...taskqueue.enqueue import CHANNEL, WakeUp, WakeUpKind, notify_more, read_message
from ..options import WorkerOptions
from ..shared.database import DatabaseCaller, Deadline, Unavailable
from ..shared.inflight import Room
from ..shared.interval import Interval
from ..shared.messages import ClaimNow
from .child_process import ChildProcess
from .pool import ChildPool

logger = logging.getLogger(__name__)
WORKERS_ASKED = 2
CHILDREN_MORE = 2
BACKUP_SECONDS = 0.05  # seconds that the first worker has to claim what the second would find
FORWARD_SECONDS, LONGEST_FORWARD = 0.2, 3.2
MOST_POLLS = 4
MOST_LISTENERS = 8
"""Workers that listen for one set of queues. A lone task took 20 ms of the server's CPU when 100 listened, 5 of 8."""
POLLS_A_SECOND = 8  # polls by all workers of one set of queues


class Asked(NamedTuple):
    """A message's number of workers, its queue, and whether this worker acts or only checks that others do."""

    workers: int
    queue: str
    at_once: bool


class Dispatcher:
    def __init__(self, worker_id: str, options: WorkerOptions, database: DatabaseCaller, pool: ChildPool) -> None:
        self.options, self.database, self.pool = options, database, pool
        self.ring = Ring(worker_id)
        self.memory = ClaimMemory(options.queues, options.exclude)
        self.polling = Interval(options.poll)
        self.forwarding = Interval(FORWARD_SECONDS)
        self.queue, self.asked = "", WORKERS_ASKED
        self.claims, self.has_skipped = 0, False

    def learn(self, alive: list[Worker], *, listening: bool) -> None:
        """Take over the workers that are alive. A worker that hears no notifications polls more often."""
        self.ring.learn(alive)
        seconds = self.options.poll / (1 if listening else min(MOST_POLLS, self.options.processes))
        self.polling.seconds = max(seconds, self.ring.colleagues / POLLS_A_SECOND)

    # Notifications

    def receive(self, messages: Iterable[WakeUp]) -> None:
        ours = [found for message in messages if (found := self.read(message))]
        if ours:
            self.asked, self.queue, _ = max(ours)
            if not any(asked.at_once for asked in ours):
                self.check_soon()
            elif not self.wake(1):
                self.forward()

    def check_soon(self) -> None:
        """Poll soon, also if the poll before was skipped."""
        self.has_skipped = True
        self.polling.soon(BACKUP_SECONDS)

    def read(self, message: WakeUp) -> Asked | None:
        """Return what the message asks if it is for this worker."""
        asked, queue = WORKERS_ASKED, message.subject
        if message.kind is WakeUpKind.MORE:
            number, _, queue = message.subject.partition(":")
            asked = int(number) if number.isdecimal() else 0
        elif message.kind is not WakeUpKind.WORK:
            return None
        rank = self.ring.rank(queue, message.sender)
        if rank >= asked or not serves(queue, self.options.queues, self.options.exclude):
            return None
        return Asked(asked, queue, at_once=rank == 0 or message.kind is WakeUpKind.MORE)

    def note_more(self) -> None:
        """Wake others, as a child claimed as many tasks as it could."""
        if not self.wake(CHILDREN_MORE, fresh=True):
            self.forward()

    def wake(self, count: int, *, fresh: bool = False) -> bool:
        has_room = wake_children(self.pool.working, count, fresh=fresh)
        if has_room:
            self.forwarding.seconds = FORWARD_SECONDS
        return has_room

    def forward(self) -> None:
        """Notify more workers, if there are more; the less often, the longer there is no room here."""
        if not self.queue or self.asked > len(self.ring.others(self.queue)) or not self.forwarding.is_due():
            return
        self.forwarding.seconds = min(LONGEST_FORWARD, self.forwarding.seconds * 2)
        with suppress(Unavailable):
            self.database.call(lambda: notify_more(self.asked * 2, self.queue, self.database.using))

    # Polling

    def poll(self) -> None:
        """Poll if it is due; every other time while children claim, which report what they leave."""
        if not self.database.is_available or not self.polling.is_due():
            return
        claims = sum(child.inflight.claims for child in self.pool.working)
        claimed, self.claims = claims != self.claims, claims
        self.has_skipped = claimed and not self.has_skipped
        if self.has_skipped:
            return
        with suppress(Unavailable):
            self.wake_for_found(is_due=self.database.call(lambda: is_work_due(self.memory, self.options.backend)))

    def wake_for_found(self, *, is_due: bool) -> None:
        """Wake another child each time: the last one may be held up."""
        if is_due:
            self.queue, self.asked = self.memory.cursor.ranges[0].queue, WORKERS_ASKED
            self.wake(1, fresh=True)


def wake_children(children: Sequence[ChildProcess], count: int, *, fresh: bool = False) -> bool:
    """Ask so many children to claim, `fresh` ones for whom the last wake-up is longest ago. False if none has room.

    Otherwise those that were woken last, as they remember where tasks are due. If none has room, each of them claims
    once it has.
    """
    ready = [child for child in children if child.inflight.room is Room.ALL]
    if ready:
        ready.sort(key=lambda child: (child.inflight.load, child.woken_at if fresh else -child.woken_at))
        chosen = ready[:count]
    else:
        chosen = [child for child in children if child.inflight.room] or list(children)
    for child in chosen:
        child.woken_at = monotonic()
        child.send(ClaimNow())
    return any(child.inflight.room for child in chosen)


SILENT = timedelta(seconds=12)
"""A worker that has missed two heartbeats is not counted on, though it is not called dead yet."""


class Ring:
    def __init__(self, worker_id: str) -> None:
        self.worker_id = worker_id
        self.alive: list[Worker] = []
        self.counted_on: list[Worker] = []
        self.is_listener, self.colleagues = True, 1

    def learn(self, alive: Sequence[Worker]) -> None:
        """Take over the workers that are alive by one reading of the database's clock, this one included."""
        self.alive = list(alive)
        latest = max((peer.heartbeat_at for peer in alive), default=None)
        ready = [peer for peer in alive if latest and is_ready(peer, latest)]
        places = {peer.id: place for of_set in by_served(ready).values() for place, peer in enumerate(of_set)}
        # One that is not ready yet, as its row says, tries to be.
        self.is_listener = places.get(self.worker_id, 0) < MOST_LISTENERS
        others = [peer for peer in ready if peer.id != self.worker_id]
        self.counted_on = [peer for peer in others if places[peer.id] < MOST_LISTENERS]
        sizes = (len(of_set) for of_set in by_served(alive).values() if any(p.id == self.worker_id for p in of_set))
        self.colleagues = next(sizes, 1)

    @property
    def is_first(self) -> bool:
        """Return whether this worker does what one of them must do for all: the one that started first."""
        return bool(self.alive) and self.alive[0].id == self.worker_id

    def rank(self, queue: str, sender: int) -> int:
        """Return this worker's rank for a message: 0 is the first. Each sender's messages begin elsewhere."""
        mine = score(self.worker_id, sender)
        return sum(score(other, sender) > mine for other in self.others(queue))

    def others(self, queue: str) -> set[str]:
        """Return the other workers that would answer for this queue."""
        return {peer.id for peer in self.counted_on if serves(queue, peer.queues, peer.exclude)}


def is_ready(peer: Worker, latest: datetime) -> bool:
    return latest - peer.heartbeat_at <= SILENT and peer.listening and peer.stop_asked_at is None


def by_served(peers: Iterable[Worker]) -> dict[tuple[str, str], list[Worker]]:
    """Group workers by the queues that they serve, in the order of their start."""
    found: dict[tuple[str, str], list[Worker]] = {}
    for peer in peers:
        found.setdefault((str(peer.queues), str(peer.exclude)), []).append(peer)
    return found


def score(worker_id: str, sender: int) -> bytes:
    return blake2b(f"{sender}:{worker_id}".encode(), digest_size=8).digest()


class Listener:
    def __init__(self, using: str, *, wanted: bool, seconds: float) -> None:
        self.using, self.seconds = using, seconds
        self.wanted = wanted and engine_for(using).can_notify
        self.is_elected = True
        self.connection: Any = None
        self.deadline = Deadline(lambda: self.connection, seconds)
        self.try_again = Interval(5.0)

    def fileno(self) -> int:
        return int(self.connection.fileno())

    @property
    def is_ready(self) -> bool:
        """Return whether it hears wake-ups, or could if it were elected."""
        return self.connection is not None or (self.wanted and not self.is_elected)

    def keep_open(self) -> bool:
        """Open it if it is closed, every few seconds. Return True when it has just been opened."""
        if self.connection is not None or not (self.wanted and self.is_elected) or not self.try_again.is_due():
            return False
        try:
            self.open()
        except (Error, OSError) as error:
            logger.debug("cannot listen for wake-ups: %s", error)
            self.close()
        return self.connection is not None

    def open(self) -> None:
        wrapper = connections[self.using].copy()
        wrapper.settings_dict = {**wrapper.settings_dict, "OPTIONS": {**wrapper.settings_dict["OPTIONS"], "pool": None}}
        with wrapper.wrap_database_errors:
            self.connection = wrapper.get_new_connection(wrapper.get_connection_params())
            with self.deadline.running():
                self.connection.autocommit = True
                self.connection.execute(f"LISTEN {CHANNEL}")
                self.test()

    def test(self) -> None:
        """A pooler in transaction mode accepts LISTEN and delivers nothing."""
        token = str(WakeUp(WakeUpKind.TEST, secrets.token_hex(8)))
        with connections[self.using].cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, token])
        for note in self.connection.notifies(timeout=self.seconds / 2):
            if note.payload == token:
                return
        self.wanted = False
        self.close()
        logger.warning("wake-ups do not arrive (is there a pooler in transaction mode?): polling only")

    def messages(self) -> set[WakeUp]:
        try:
            self.connection.pgconn.consume_input()
            notes = iter(self.connection.pgconn.notifies, None)
            return {message for note in notes if (message := read_message(note.extra.decode(), note.be_pid))}
        except Exception as error:
            logger.debug("lost the connection for wake-ups: %s", error)
            self.close()
            return set()

    def close(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()

    def close_in_child(self) -> None:
        """Close the socket in a forked child, without a message to the server, which still serves the parent."""
        if self.connection is not None:
            with suppress(OSError):
                os.close(self.connection.fileno())
