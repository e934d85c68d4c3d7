"""A while without faults, but with hostile rows, locked rows and a log that nobody reads: who pays, pays for these."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tests.soak.crew import PipedSupervisor
from tests.soak.hostile import HostileProducer
from tests.soak.locks import RowLocks

if TYPE_CHECKING:
    from tests.soak.people import Producer

FIRST_NUMBER = 20_000_000
LOCKED_LEASES, LOCKED_ROWS, TRANSACTIONS = 3.0, 2, 4
TURN_SECONDS, STALL_SECONDS = 0.02, 0.3


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
        unread: Sequence[PipedSupervisor],
        look: Callable[[], object],
    ) -> None:
        self.lease, self.producer, self.hostile, self.locks = lease, producer, hostile, locks
        self.unread, self.look = unread, look
        self.window: tuple[float, float] | None = None
        self.stalls: list[tuple[float, float]] = []

    def run(self, is_quiet: Callable[[], bool], deadline: float) -> bool:
        """Whether all of it was done in time."""
        began = time.monotonic()
        for supervisor in self.unread:
            supervisor.is_read.clear()
        while not self.producer.is_done:
            self.producer.enqueue()
            self.hostile.insert_all()
            self.hold_rows()
        for supervisor in self.unread:
            supervisor.is_read.set()
        while not (done := is_quiet()) and time.monotonic() < deadline:
            self.look()
            self.pause(10 * TURN_SECONDS)
        self.window = (began, time.monotonic())
        return done

    def complaints(self) -> list[str]:
        """Where what was to be seen did not happen."""
        found = ["I9 a plain row was refused"] if self.hostile.refused["a plain row"] else []
        return found + (["I10 no row was locked"] if self.locks and not self.locks.held else [])

    def hold_rows(self) -> None:
        if self.locks is None:
            return
        held = []
        for _ in range(TRANSACTIONS):
            held.append(self.locks.hold(LOCKED_ROWS))
            self.pause(0.1)
        self.pause(self.lease * LOCKED_LEASES)
        for transaction in held:
            if transaction:
                transaction.close()

    def pause(self, seconds: float) -> None:
        """Where this process was not let run in time, the others may not have been either."""
        until = time.monotonic() + seconds
        while (before := time.monotonic()) < until:
            time.sleep(TURN_SECONDS)
            if time.monotonic() - before > STALL_SECONDS:
                self.stalls.append((before, time.monotonic()))
