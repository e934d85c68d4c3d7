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

ENTRY = struct.Struct("=i i 16s d d")


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
    started: float
    deadline: float


class Board:
    def __init__(self, size: int) -> None:
        self.size = size
        self.memory = mmap.mmap(-1, ENTRY.size * size)
        self.free = list(range(size))
        self.places: dict[Fence, int] = {}

    def claimed(self, lease: Lease) -> None:
        place = self.free.pop()
        self.places[lease.fence] = place
        self._write(place, State.CLAIMED, lease)

    def started(self, lease: Lease, now: float) -> None:
        self._write(self.places[lease.fence], State.STARTED, lease, now, now + lease.timeout)

    def ended(self, lease: Lease) -> None:
        """The function has returned; its outcome is yet to be written."""
        self._write(self.places[lease.fence], State.ENDED, lease)

    def settled(self, lease: Lease) -> None:
        place = self.places.pop(lease.fence)
        self.memory[place * ENTRY.size : (place + 1) * ENTRY.size] = bytes(ENTRY.size)
        self.free.append(place)

    def _write(self, place: int, state: State, lease: Lease, started: float = 0.0, deadline: float = 0.0) -> None:
        ENTRY.pack_into(self.memory, place * ENTRY.size, state, lease.attempts, lease.id.bytes, started, deadline)

    def entries(self) -> Iterator[Entry]:
        for place in range(self.size):
            state, attempts, task_id, started, deadline = ENTRY.unpack_from(self.memory, place * ENTRY.size)
            if state != State.FREE:
                yield Entry(State(state), attempts, UUID(bytes=task_id), started, deadline)
