"""When a repeating task runs next."""

from __future__ import annotations

import math
from datetime import datetime, timedelta


def next_slot(slot: datetime, interval: float, now: datetime) -> datetime:
    """The first `slot + k * interval` (k = 1, 2, …) that lies in the future: no drift, no catch-up storm."""
    passed = (now - slot).total_seconds() / interval
    return slot + timedelta(seconds=interval) * max(1, math.floor(passed) + 1)
