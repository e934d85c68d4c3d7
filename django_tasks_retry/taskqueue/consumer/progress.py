"""Progress: how far the holder of a lease has come, for operators to see. Written under the fence, like a renewal."""

from __future__ import annotations

from typing import Any

from django.db import connections

from ...clock import Now, frozen
from ...errors import InvalidCall, LeaseLost, LostReason
from ...rules.payload import canonical, clip, storable
from ..database import database
from ..lease import Lease, kept_by, leased_by, why_lost

NOTE_LIMIT = 500


def holds(lease: Lease) -> bool:
    """Whether the lease still holds, by the database's own clock."""
    return leased_by(lease).exists()


def report_progress(lease: Lease, done: float, total: float | None = None, note: str = "") -> None:
    """Record the holder's progress; LeaseLost where the lease no longer holds. Waits where the row is locked."""
    progress = progress_of(done, total, note)
    with frozen():
        written = leased_by(lease).update(progress=progress, moved_by=kept_by(lease.signature), updated_at=Now())
    if not written:
        raise_lost(lease)


def check_lease(lease: Lease) -> None:
    """LeaseLost where the lease no longer holds. Takes no lock, so it may stand in a long transaction."""
    if not holds(lease):
        raise_lost(lease)


def progress_of(done: float, total: float | None, note: str) -> dict[str, Any]:
    return {
        "done": checked_number("done", done),
        "total": None if total is None else checked_number("total", total),
        "note": clip(storable(str(note)), NOTE_LIMIT),
    }


def checked_number(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidCall(f"progress({name}={value!r}): give a number.")
    number: float = canonical(value, name)
    return number


def open_transactions(backend: str) -> int:
    """How many atomic blocks are open on the connection that the tasks of this backend live in."""
    return len(connections[database(backend)].atomic_blocks)


def raise_lost(lease: Lease) -> None:
    using = database(lease.backend)
    raise LeaseLost(why_lost([lease], using).get(lease.fence, LostReason.EXPIRED), lease.id)
