"""When a repeating task runs next."""

from __future__ import annotations

from datetime import datetime, timedelta


def next_slot(slot: datetime, interval: float, now: datetime) -> datetime:
    """The first `slot + k * interval` (k = 1, 2, …) that lies in the future: no drift, no catch-up storm."""
    step = timedelta(seconds=interval)
    return slot + step * max(1, (now - slot) // step + 1)
