"""Renew: a worker that is alive keeps its leases. Moves the expiry and nothing else."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

from ...conf import options
from ...errors import LostReason
from ..database import database
from ..engines import engine_for
from ..lease import Fence, Lease, why_lost


def renew(
    leases: Sequence[Lease], seconds: float | None = None, *, actor: str | None = None
) -> dict[Fence, LostReason]:
    """Extend the leases to `seconds` from now. Returns, by fence, those that no longer hold and why.

    A task whose row somebody else keeps locked is passed over: its lease runs on, and is to be renewed again soon.
    """
    if not leases:
        return {}
    backend = leases[0].backend
    using, seconds = database(backend), options(backend).lease if seconds is None else seconds
    extended = engine_for(using).renew(leases, seconds, actor)
    return why_lost([lease for lease in leases if lease.fence not in extended], using)


def renew_workers(
    worker_ids: Sequence[str],
    seconds: float,
    *,
    actor: str,
    backend: str = "default",
    known: Collection[UUID] | None = None,
) -> set[UUID]:
    """Extend every lease of these workers, for their supervisor. Returns the tasks they still hold.

    Where the tasks that they know of are given, others run out: a claim whose answer was lost, an outcome refused.
    """
    return engine_for(database(backend)).renew_workers(worker_ids, seconds, actor, known)
