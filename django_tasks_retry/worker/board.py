"""The board: a child's leases in memory it shares with its supervisor.

The supervisor reads it whenever it likes, also while a task holds the interpreter lock or after the child was killed:
it shows what was only claimed, what had started, since when, and until when it may run.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from uuid import UUID

from ..taskqueue import Fence, Lease

# In native form, in which a number is written as a whole: the other side may look at any moment.
ENTRY = struct.Struct("@i i 16s d d d")
STATE, TIMES, TIME, COUNT = (struct.Struct(form) for form in ("@i", "@d d", "@d", "@q"))
TIMES_AT = ENTRY.size - TIMES.size


class State(IntEnum):
    FREE = 0
    CLAIMED = 1
    STARTED = 2
    ENDED = 3


@dataclass(frozen=True, slots=True)
class Entry:
    state: State
    attempts: int
    task_id: UUID
    claimed: float
    started: float
    deadline: float


class Board:
    def __init__(self, size: int) -> None:
        self.size = size
        self.claims_at, self.renewed_at_at = ENTRY.size * size, ENTRY.size * size + COUNT.size
        self.answered_at = self.renewed_at_at + TIME.size
        self.memory = mmap.mmap(-1, self.answered_at + COUNT.size)
        self.free = list(range(size))
        self.places: dict[Fence, int] = {}

    @property
    def claims(self) -> int:
        """How many tasks were claimed so far."""
        return int(COUNT.unpack_from(self.memory, self.claims_at)[0])

    @property
    def answered(self) -> int:
        """How many outcomes were written so far."""
        return int(COUNT.unpack_from(self.memory, self.answered_at)[0])

    @property
    def renewed_at(self) -> float:
        """When the supervisor last asked for a renewal that was granted."""
        return float(TIME.unpack_from(self.memory, self.renewed_at_at)[0])

    def renewed(self, asked: float) -> None:
        """Here rather than in a message, which a child that was held up would read too late."""
        TIME.pack_into(self.memory, self.renewed_at_at, asked)

    def claimed(self, lease: Lease, now: float) -> None:
        COUNT.pack_into(self.memory, self.claims_at, self.claims + 1)
        place = self.free.pop()
        self.places[lease.fence] = place
        ENTRY.pack_into(self.memory, place * ENTRY.size, State.CLAIMED, lease.attempts, lease.id.bytes, now, 0.0, 0.0)

    def started(self, lease: Lease, now: float) -> None:
        place = self.places[lease.fence] * ENTRY.size
        TIMES.pack_into(self.memory, place + TIMES_AT, now, now + lease.timeout)
        STATE.pack_into(self.memory, place, State.STARTED)

    def ended(self, lease: Lease) -> None:
        """The function has returned; its outcome is yet to be written."""
        place = self.places.get(lease.fence)
        if place is not None:  # else it was given back meanwhile
            STATE.pack_into(self.memory, place * ENTRY.size, State.ENDED)

    def settled(self, lease: Lease) -> None:
        COUNT.pack_into(self.memory, self.answered_at, self.answered + 1)
        place = self.places.pop(lease.fence)
        self.memory[place * ENTRY.size : (place + 1) * ENTRY.size] = bytes(ENTRY.size)
        self.free.append(place)

    def entries(self) -> Iterator[Entry]:
        for place in range(self.size):
            state, attempts, task_id, *times = ENTRY.unpack_from(self.memory, place * ENTRY.size)
            if state != State.FREE:
                yield Entry(State(state), attempts, UUID(bytes=task_id), *times)
