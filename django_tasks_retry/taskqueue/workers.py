"""Registration and heartbeats of workers, and their questions about their own leases."""

from collections.abc import Collection
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from ..clock import Now, now
from ..models import Task, Worker
from .database import database, fetch_stored
from .lease import HEADER_COLUMNS, Lease, lease_header
from .reading import log_once, read_rows, unreadable_columns

ALIVE_SECONDS = 30.0
KEEP = timedelta(days=1)


def register_worker(worker_id: str, backend: str, **facts: Any) -> None:
    """Enter the registry, and drop the entries of workers long gone."""
    using = database(backend)
    moment = now(using)
    Worker.objects.using(using).filter(heartbeat_at__lt=moment - KEEP).delete()
    facts |= {"backend": backend, "started_at": moment, "heartbeat_at": moment}
    # Not create(): the answer to an earlier try may have been lost.
    Worker.objects.using(using).update_or_create(id=worker_id, defaults=facts)


PEER = ("id", "queues", "exclude", "listening", "started_at", "heartbeat_at", "stop_asked_at")
"""The columns that workers read of each other."""


def heartbeat(worker_id: str, backend: str, running: int = 0, *, listening: bool = False) -> list[Worker]:
    """Record the heartbeat. Return live workers, oldest first."""
    registered = Worker.objects.using(database(backend)).filter(pk=worker_id)
    registered.update(heartbeat_at=Now(), running=running, listening=listening)
    alive = alive_workers(backend).filter(backend=backend).order_by("started_at", "id")
    return sound_workers(alive.only(*PEER), own=worker_id)


def deregister_worker(worker_id: str, backend: str) -> None:
    Worker.objects.using(database(backend)).filter(pk=worker_id).update(stopped_at=Now(), running=0)


def alive_workers(backend: str = "default") -> QuerySet[Worker]:
    """Workers with a heartbeat in the last 30 seconds."""
    recently = Now() - timedelta(seconds=ALIVE_SECONDS)
    return Worker.objects.using(database(backend)).filter(stopped_at__isnull=True, heartbeat_at__gte=recently)


def sound_workers(rows: QuerySet[Worker], own: str = "") -> list[Worker]:
    """Return the workers whose rows can be read, and `own` in any case. Others are logged once."""
    found = []
    for worker in read_rows(rows):
        columns = ", ".join(unreadable_columns(worker))
        if columns:
            why = "the worker %r is left out: %s of its row cannot be read. Restart it, or delete the row"
            log_once(why, worker.pk, columns)
        if not columns or worker.pk == own:
            found.append(worker)
    return found


def leases_of(worker_id: str, backend: str = "default") -> list[Lease]:
    """Every lease in this worker's name, also those whose claim was never answered. Without their payload."""
    using = database(backend)
    leased = Task.objects.using(using).leased_to(worker_id)
    return [lease_header(row) for row in fetch_stored(leased, HEADER_COLUMNS, using)]


def find_leased(
    ids: Collection[UUID], workers: Collection[str], backend: str = "default", *, or_expired: bool = False
) -> set[UUID]:
    """Return those of these tasks that are leased to one of these workers, expired leases only if asked for."""
    leased = Task.objects.using(database(backend)).running().filter(pk__in=ids, locked_by__in=workers)
    if not or_expired:
        leased = leased.filter(lock_expires_at__gt=Now())
    return set(leased.values_list("pk", flat=True))


def find_cancelled(ids: Collection[UUID], backend: str = "default") -> set[UUID]:
    tasks = Task.objects.using(database(backend)).cancelled()
    return set(tasks.filter(pk__in=ids).values_list("pk", flat=True))
