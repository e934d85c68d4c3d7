"""The in-flight table: a child's leases in memory that it shares with its supervisor.

The supervisor reads it whenever it likes, also while a task holds the interpreter lock or after the child was killed:
it shows what was only claimed, what has started, since when, until when it may run, and what has ended. Each field has
one writer: the child writes the states and their times, the supervisor renewals and revocations.
"""

import mmap
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from uuid import UUID

from ...taskqueue import Lease

# In native form, in which a number is written as a whole: the other side may look at any moment.
ENTRY = struct.Struct("@i i i 16s d d d d d")
NUMBER, TIME, TIMES, COUNT = (struct.Struct(form) for form in ("@i", "@d", "@d d", "@q"))
REVOKED_AT, STARTED_AT, ENDED_AT, RENEWED_AT = 8, 40, 56, 64
HEADER = struct.Struct("@q q d d q")
CLAIMS_AT, ANSWERED_AT, ASKED_AT, BACK_BY_AT, ROOM_AT = 0, 8, 16, 24, 32


class Room(IntFlag):
    """The kinds of tasks that a child has free slots for."""

    NONE = 0
    FUNCTIONS = 1
    COROUTINES = 2
    ALL = 3


class State(IntEnum):
    FREE = 0
    CLAIMED = 1
    STARTED = 2
    ENDED = 3


@dataclass(frozen=True, slots=True)
class Entry:
    place: int
    state: State
    attempts: int
    revoked: bool
    task_id: UUID
    claimed: float
    started: float
    deadline: float
    ended: float
    renewed: float

    @property
    def valid_from(self) -> float:
        """Return since when its lease runs: the claim, or the last renewal."""
        return max(self.claimed, self.renewed)


class InFlightTable:
    def __init__(self, size: int) -> None:
        self.size = size
        self.memory = mmap.mmap(-1, HEADER.size + ENTRY.size * size)
        self.free = list(range(size))

    def offset(self, place: int) -> int:
        return HEADER.size + place * ENTRY.size

    # The child's side

    @property
    def claims(self) -> int:
        return int(COUNT.unpack_from(self.memory, CLAIMS_AT)[0])

    @property
    def answered(self) -> int:
        """Return how many outcomes the database has answered so far."""
        return int(COUNT.unpack_from(self.memory, ANSWERED_AT)[0])

    def promise_return(self, moment: float) -> None:
        """Note by when the child's main thread will be back in its loop."""
        TIME.pack_into(self.memory, BACK_BY_AT, moment)

    def note_room(self, room: Room) -> None:
        COUNT.pack_into(self.memory, ROOM_AT, room)

    def claim(self, leases: Sequence[Lease], now: float) -> list[int]:
        """Note a claim. Return the indexes of their entries, each its own until it is cleared."""
        COUNT.pack_into(self.memory, CLAIMS_AT, self.claims + len(leases))
        places = [self.free.pop() for _ in leases]
        memory, write, claimed = self.memory, ENTRY.pack_into, int(State.CLAIMED)
        for place, lease in zip(places, leases, strict=True):
            entry = (claimed, lease.attempts, 0, lease.id.bytes, now, 0.0, 0.0, 0.0, 0.0)
            write(memory, HEADER.size + place * ENTRY.size, *entry)
        return places

    def start(self, place: int, now: float, deadline: float) -> bool:
        """Note the start. Return False if the supervisor has revoked the lease: then the attempt must not run.

        Write before reading the revocation. The supervisor also writes first and reads later, so one always sees the
        other.
        """
        offset = self.offset(place)
        TIMES.pack_into(self.memory, offset + STARTED_AT, now, deadline)
        NUMBER.pack_into(self.memory, offset, State.STARTED)
        return not NUMBER.unpack_from(self.memory, offset + REVOKED_AT)[0]

    def end(self, place: int | None, now: float) -> None:
        """Note that the attempt is over and its report made; the outcome is yet to be written."""
        if place is not None:  # else it was given back meanwhile
            TIME.pack_into(self.memory, self.offset(place) + ENDED_AT, now)
            NUMBER.pack_into(self.memory, self.offset(place), State.ENDED)

    def clear(self, places: Sequence[int]) -> None:
        """Free the entries: the outcomes were answered, and so the leases are no longer the child's."""
        COUNT.pack_into(self.memory, ANSWERED_AT, self.answered + len(places))
        memory, write, free = self.memory, NUMBER.pack_into, int(State.FREE)
        for place in places:
            write(memory, HEADER.size + place * ENTRY.size, free)  # the next claim writes the rest
        self.free += places

    def renewed_at(self, place: int) -> float:
        return float(TIME.unpack_from(self.memory, self.offset(place) + RENEWED_AT)[0])

    # The supervisor's side

    @property
    def back_by(self) -> float:
        return float(TIME.unpack_from(self.memory, BACK_BY_AT)[0])

    @property
    def room(self) -> Room:
        """Return the room that the child last noted, before it began to wait."""
        return Room(COUNT.unpack_from(self.memory, ROOM_AT)[0])

    @property
    def load(self) -> int:
        return self.claims - self.answered

    @property
    def renewals_asked_at(self) -> float:
        """Return when the supervisor last asked for renewals and got an answer, for any leases."""
        return float(TIME.unpack_from(self.memory, ASKED_AT)[0])

    def note_renewals(self, asked: float, entries: list[Entry]) -> None:
        """Note renewals here rather than in a message, which a child that was held up would read too late."""
        TIME.pack_into(self.memory, ASKED_AT, asked)
        for entry in entries:
            TIME.pack_into(self.memory, self.offset(entry.place) + RENEWED_AT, asked)

    def revoke(self, entry: Entry) -> None:
        """Keep an attempt that has not started from starting."""
        NUMBER.pack_into(self.memory, self.offset(entry.place) + REVOKED_AT, 1)

    def entries(self, *states: State) -> Iterator[Entry]:
        if not self.load:
            return  # the supervisor looks at all its children several times a second, and most of them rest
        for place in range(self.size):
            state, attempts, revoked, task_id, *times = ENTRY.unpack_from(self.memory, self.offset(place))
            if state != State.FREE and (not states or state in states):
                yield Entry(place, State(state), attempts, bool(revoked), UUID(bytes=task_id), *times)
