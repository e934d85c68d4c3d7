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

ENTRY = struct.Struct("=i i 16s d d d")
STATE, TIMES = struct.Struct("=i"), struct.Struct("=d d")
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
        self.memory = mmap.mmap(-1, ENTRY.size * size + STATE.size)
        self.free = list(range(size))
        self.places: dict[Fence, int] = {}

    @property
    def claims(self) -> int:
        """How many tasks were claimed so far."""
        return int(STATE.unpack_from(self.memory, ENTRY.size * self.size)[0])

    def claimed(self, lease: Lease, now: float) -> None:
        STATE.pack_into(self.memory, ENTRY.size * self.size, self.claims + 1)
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
        place = self.places.pop(lease.fence)
        self.memory[place * ENTRY.size : (place + 1) * ENTRY.size] = bytes(ENTRY.size)
        self.free.append(place)

    def entries(self) -> Iterator[Entry]:
        for place in range(self.size):
            state, attempts, task_id, *times = ENTRY.unpack_from(self.memory, place * ENTRY.size)
            if state != State.FREE:
                yield Entry(State(state), attempts, UUID(bytes=task_id), *times)
