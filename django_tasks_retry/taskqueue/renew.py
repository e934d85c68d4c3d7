"""Renew: a worker that is alive keeps its leases. Moves the expiry and nothing else."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Greatest

from ..clock import Now, frozen, now
from ..conf import options
from ..errors import LostReason
from ..models import Task
from ..rules.transitions import KEPT
from .database import database, is_postgresql, run, statement
from .finish import why_lost
from .lease import Fence, Lease


def renew(
    leases: Sequence[Lease], seconds: float | None = None, *, actor: str | None = None
) -> dict[Fence, LostReason]:
    """Extend the leases to `seconds` from now. Returns, by fence, those that no longer hold and why."""
    if not leases:
        return {}
    backend = leases[0].backend
    using, seconds = database(backend), options(backend).lease if seconds is None else seconds
    extend = extend_on_postgresql if is_postgresql(using) else extend_on_sqlite
    extended = extend(leases, seconds, actor, using)
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
    using = database(backend)
    extend = extend_workers_on_postgresql if is_postgresql(using) else extend_workers_on_sqlite
    return extend(worker_ids, seconds, f"{actor}{KEPT}", known, using)


def extend_workers_on_postgresql(
    worker_ids: Sequence[str], seconds: float, moved_by: str, known: Collection[UUID] | None, using: str
) -> set[UUID]:
    parameters = {
        "workers": list(worker_ids),
        "known": None if known is None else list(known),
        "lease": seconds,
        "moved_by": moved_by,
    }
    return {row["id"] for row in run(statement("renew_workers"), parameters, using)}


def extend_workers_on_sqlite(
    worker_ids: Sequence[str], seconds: float, moved_by: str, known: Collection[UUID] | None, using: str
) -> set[UUID]:
    with transaction.atomic(using=using), frozen():
        leased = Task.objects.using(using).running().filter(locked_by__in=worker_ids, lock_expires_at__gt=Now())
        if known is not None:
            leased = leased.filter(pk__in=known)
        ids = set(leased.values_list("pk", flat=True))
        expiry = Greatest(F("lock_expires_at"), Now() + timedelta(seconds=seconds))
        leased.filter(pk__in=ids).update(lock_expires_at=expiry, moved_by=moved_by)
    return ids


def extend_on_postgresql(leases: Sequence[Lease], seconds: float, actor: str | None, using: str) -> set[Fence]:
    # In the order of their ids, so that two that write about the same tasks cannot deadlock.
    leases = sorted(leases, key=lambda lease: lease.id)
    parameters = {
        "id": [lease.id for lease in leases],
        "worker": [lease.locked_by for lease in leases],
        "attempt": [lease.attempts for lease in leases],
        "moved_by": [f"{actor or lease.signature}{KEPT}" for lease in leases],
        "lease": seconds,
    }
    return {(row["id"], row["locked_by"], row["attempts"]) for row in run(statement("renew"), parameters, using)}


def extend_on_sqlite(leases: Sequence[Lease], seconds: float, actor: str | None, using: str) -> set[Fence]:
    extended = set()
    with transaction.atomic(using=using), frozen():
        moment = now(using)
        for lease in leases:
            mine = Task.objects.using(using).filter(
                pk=lease.id, locked_by=lease.locked_by, attempts=lease.attempts, lock_expires_at__gt=moment
            )
            if mine.update(
                lock_expires_at=Greatest(F("lock_expires_at"), moment + timedelta(seconds=seconds)),
                moved_by=f"{actor or lease.signature}{KEPT}",
            ):
                extended.add(lease.fence)
    return extended
