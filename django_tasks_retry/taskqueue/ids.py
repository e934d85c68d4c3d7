"""Makes task ids: rising within a process, so that tasks enqueued together keep their order."""

from __future__ import annotations

import secrets
import threading
import time
from uuid import UUID

from ..rules.ids import uuid7

_lock = threading.Lock()
_last = (0, 0)


def new_id() -> UUID:
    global _last
    with _lock:
        milliseconds, bits = _last
        clock = time.time_ns() // 1_000_000
        if clock > milliseconds:
            # The top bit stays free, so that counting up within a millisecond cannot overflow.
            milliseconds, bits = clock, secrets.randbits(73)
        else:
            bits += 1 + secrets.randbits(32)
        _last = milliseconds, bits
    return uuid7(milliseconds, bits)
