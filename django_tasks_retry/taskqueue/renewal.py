"""Renew: a worker that is alive keeps its leases, and tells how far it has come. Written under the fence."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connections, transaction

from ..clock import Now, frozen, host_time
from ..conf import options
from ..errors import InvalidCall, LeaseLost, LostReason
from ..rules.payload import canonical, clip, storable
from .database import database
from .engines import engine_for
from .lease import Fence, Lease, kept_by, leased_by, why_lost

NOTE_LIMIT = 500


def renew(
    leases: Sequence[Lease], seconds: float | None = None, *, actor: str | None = None, asked: datetime | None = None
) -> dict[Fence, LostReason]:
    """Extend the leases to `seconds` from now. Returns, by fence, those that no longer hold and why.

    A task whose row somebody else keeps locked is passed over: its lease runs on, and is to be renewed again soon.
    `asked` is when the caller began to wait for SQLite's write lock: a lease that held then holds until others write.
    """
    if not leases:
        return {}
    backend = leases[0].backend
    using, seconds = database(backend), options(backend).lease if seconds is None else seconds
    extended = engine_for(using).renew(leases, seconds, actor, asked)
    return why_lost([lease for lease in leases if lease.fence not in extended], using)


def renew_workers(
    worker_ids: Sequence[str],
    seconds: float,
    *,
    actor: str,
    backend: str = "default",
    known: Collection[UUID] | None = None,
    asked: datetime | None = None,
) -> set[UUID]:
    """Extend every lease of these workers, for their supervisor. Returns the tasks they still hold.

    If the tasks that they know of are given, other leases run out: a claim whose answer was lost, an outcome refused.
    `asked` is as in `renew`.
    """
    return engine_for(database(backend)).renew_workers(worker_ids, seconds, actor, known, asked)


_began: ContextVar[datetime | None] = ContextVar("began", default=None)


@contextmanager
def one_commit(lease: Lease) -> Iterator[None]:
    """A transaction of the attempt's own writes, in which its lease outlasts its expiry on SQLite."""
    with transaction.atomic(using=database(lease.backend)):
        token = _began.set(host_time())
        try:
            yield
        finally:
            _began.reset(token)


def outlasts(lease: Lease) -> bool:
    """Renew an expired lease inside `one_commit`: nobody else has written since it began, so the lease holds as then.

    PostgreSQL judges by the time of the statement, and so refuses.
    """
    return (began := _began.get()) is not None and not renew([lease], asked=began)


def excludes_writers(error: BaseException | None, backend: str = "default") -> bool:
    """Return whether a write failed because a lock blocks all writers: then nobody can take a task either."""
    return engine_for(database(backend)).excludes_writers(error)


# Progress, for operators to see


def lease_holds(lease: Lease) -> bool:
    """Return whether the lease still holds, by the database's own clock."""
    return leased_by(lease).exists()


def report_progress(lease: Lease, done: float, total: float | None = None, note: str = "") -> None:
    """Record the holder's progress. Raise LeaseLost if the lease no longer holds. Waits while the row is locked."""
    progress = progress_of(done, total, note)
    with frozen():
        written = leased_by(lease).update(progress=progress, moved_by=kept_by(lease.signature), updated_at=Now())
    if not written:
        raise_lost(lease)


def check_lease(lease: Lease) -> None:
    """Raise LeaseLost if the lease no longer holds. Takes no lock, so it may be called in a long transaction."""
    if not lease_holds(lease) and not outlasts(lease):
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
    """Return how many atomic blocks are open on the connection that the tasks of this backend live in."""
    return len(connections[database(backend)].atomic_blocks)


def raise_lost(lease: Lease) -> None:
    using = database(lease.backend)
    raise LeaseLost(why_lost([lease], using).get(lease.fence, LostReason.EXPIRED), lease.id)
