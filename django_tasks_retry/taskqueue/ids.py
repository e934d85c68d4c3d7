"""Makes task ids: rising within a process, so that tasks enqueued together keep their order."""

from __future__ import annotations

import os
import struct
import threading
import time
from uuid import UUID

from ..rules.ids import uuid7

COUNTER_BITS, RANDOM_BITS = 12, 62
STEP_BACK_MS = 10_000
"""How far the clock may be set back while ids go on rising; after a larger step they follow it, in a new order."""

SPARE = 256
"""Random numbers that are fetched at once: each visit to the kernel takes as long as the rest of an id."""

_lock = threading.Lock()
_last = (0, 0)
_spare: list[int] = []


def new_id() -> UUID:
    """The counter stands right behind the time, so that the beginning of an id tells it from its neighbours."""
    global _last
    with _lock:
        milliseconds, counter = _last
        clock = time.time_ns() // 1_000_000
        if clock > milliseconds or milliseconds - clock > STEP_BACK_MS:
            # The top bit stays free, so that there is room to count up.
            milliseconds, counter = clock, randbits(COUNTER_BITS - 1)
        else:
            overflow, counter = divmod(counter + 1, 1 << COUNTER_BITS)
            milliseconds += overflow
        _last = milliseconds, counter
        return uuid7(milliseconds, counter << RANDOM_BITS | randbits(RANDOM_BITS))


def randbits(count: int) -> int:
    if not _spare:
        _spare.extend(struct.unpack(f"{SPARE}Q", os.urandom(8 * SPARE)))
    return _spare.pop() >> 64 - count


def begin_anew() -> None:
    """In a forked process, which must neither make the ids of its parent nor wait for a lock that nobody holds."""
    global _lock
    _lock = threading.Lock()
    _spare.clear()


os.register_at_fork(after_in_child=begin_anew)
