"""Makes task ids: rising within a process, so that tasks enqueued together keep their order."""

from __future__ import annotations

import os
import struct
import threading
import time
from collections.abc import Iterator
from uuid import UUID

from ..rules.ids import uuid7

COUNTER_BITS, RANDOM_BITS = 12, 62
STEP_BACK_MS = 10_000
"""How far the clock may be set back while ids go on rising; after a larger step they follow it, in a new order."""

MOST_AT_ONCE = 256

_lock = threading.Lock()
_last = (0, 0)
"""The millisecond and the counter of the next id, unless the clock has gone on."""


def new_id() -> UUID:
    return new_ids(1)[0]


def new_ids(count: int) -> list[UUID]:
    """The counter stands right behind the time, so that the beginning of an id tells it from its neighbours."""
    global _last
    # At once: each visit to the kernel takes as long as the rest of an id.
    lot, *numbers = struct.unpack(f"{count + 1}Q", os.urandom(8 * (count + 1)))
    made = []
    with _lock:
        milliseconds, counter = next_place(time.time_ns() // 1_000_000, lot)
        for number in numbers:
            made.append(uuid7(milliseconds, counter << RANDOM_BITS | number >> 64 - RANDOM_BITS))
            overflow, counter = divmod(counter + 1, 1 << COUNTER_BITS)
            milliseconds += overflow
        _last = milliseconds, counter
    return made


def next_place(clock: int, lot: int) -> tuple[int, int]:
    """Behind the last id, or somewhere in a new millisecond."""
    milliseconds, counter = _last
    if clock > milliseconds or milliseconds - clock > STEP_BACK_MS:
        # The top bit stays free, so that there is room to count up.
        return clock, lot >> 64 - (COUNTER_BITS - 1)
    return milliseconds, counter


def rising_ids() -> Iterator[UUID]:
    """Ids for calls of which nobody knows how many there are: drawn some at a time, soon many."""
    count = 1
    while True:
        yield from new_ids(count)
        count = min(2 * count, MOST_AT_ONCE)


def begin_anew() -> None:
    """In a forked process, which must neither make the ids of its parent nor wait for a lock that nobody holds."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=begin_anew)
