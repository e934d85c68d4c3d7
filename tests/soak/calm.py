"""A while without faults, but with hostile rows, locked rows and a log that nobody reads: who pays, pays for these."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tests.soak.crew import PipedSupervisor, Supervisor
from tests.soak.hostile import HostileProducer
from tests.soak.locks import RowLocks
from tests.soak.stalls import Stalls

if TYPE_CHECKING:
    from tests.soak.people import Producer

FIRST_NUMBER = 20_000_000
LOCKED_LEASES, LOCKED_ROWS, TRANSACTIONS = 3.0, 2, 4
LOOK_SECONDS, BETWEEN_SECONDS, RUNNING_SECONDS = 0.2, 0.1, 10.0


def lawful_producer(tasks_wanted: int, lease: float, chance: random.Random) -> Producer:
    from tests.soak import tasks
    from tests.soak.people import Producer

    return Producer(FIRST_NUMBER + tasks_wanted, lease, chance, FIRST_NUMBER, request=tasks.lawful_request)


class Calm:
    def __init__(
        self,
        lease: float,
        producer: Producer,
        hostile: HostileProducer,
        locks: RowLocks | None,
        crew: Sequence[Supervisor],
        look: Callable[[], object],
    ) -> None:
        self.lease, self.producer, self.hostile, self.locks = lease, producer, hostile, locks
        self.unread = [supervisor for supervisor in crew if isinstance(supervisor, PipedSupervisor)]
        self.stalls = Stalls(lease, lambda: [supervisor.pid for supervisor in crew])
        self.look = look
        self.window: tuple[float, float] | None = None
        self.rows_locked = 0

    def run(self, is_quiet: Callable[[], bool], deadline: float) -> bool:
        """Whether all of it was done in time."""
        began = time.monotonic()
        with self.stalls:
            self.disturb()
            while not (done := is_quiet()) and time.monotonic() < deadline:
                self.look()
                time.sleep(LOOK_SECONDS)
        self.window = (began, time.monotonic())
        return done

    def disturb(self) -> None:
        for supervisor in self.unread:
            supervisor.is_read.clear()
        while not self.producer.is_done:
            self.producer.enqueue()
            self.hostile.insert_all()
            self.hold_rows()
        for supervisor in self.unread:
            supervisor.is_read.set()

    def complaints(self) -> list[str]:
        """Expected facts that did not happen."""
        found = ["I9 a plain row was refused"] if self.hostile.refused["a plain row"] else []
        return found + (["I10 no row was locked"] if self.locks and not self.rows_locked else [])

    def hold_rows(self) -> None:
        if self.locks is None:
            return
        known, deadline = len(self.locks.held), time.monotonic() + RUNNING_SECONDS
        while not (first := self.locks.hold(LOCKED_ROWS)) and time.monotonic() < deadline:
            time.sleep(BETWEEN_SECONDS)  # a busy machine takes its time to start tasks
        transactions = [first]
        for _ in range(TRANSACTIONS - 1):
            transactions.append(self.locks.hold(LOCKED_ROWS))
            time.sleep(BETWEEN_SECONDS)
        time.sleep(self.lease * LOCKED_LEASES)
        for transaction in filter(None, transactions):
            transaction.close()
        self.rows_locked += len(self.locks.held) - known
