"""Prune: delete finished tasks past their retention, a batch at a time, never holding a lock for long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction

from ..clock import now
from ..conf import options
from ..models import Task, TaskEvent, TaskResult
from ..rules.ids import first_of
from ..rules.status import FINISHED, Status
from .database import database

BATCH = 1000


def prune(
    *, backend: str = "default", keep: Mapping[Status, float | None] | None = None, batch: int = BATCH
) -> Iterator[int]:
    """Delete and yield the size of each batch. `keep` gives seconds per status; None keeps a status for ever."""
    using, retention = database(backend), retention_of(backend) | dict(keep or {})
    moment = now(using)
    for status in FINISHED:
        seconds = retention[status]
        if seconds is not None:
            yield from prune_status(status, moment - timedelta(seconds=seconds), batch, using)


def retention_of(backend: str) -> dict[Status, float | None]:
    chosen = options(backend)
    return {
        Status.SUCCESS: chosen.keep_success,
        Status.FAILED: chosen.keep_failed,
        Status.CANCELLED: chosen.keep_cancelled,
    }


def prune_status(status: Status, before: datetime, batch: int, using: str) -> Iterator[int]:
    after: UUID | None = None
    while ids := expired(status, before, after, batch, using):
        with transaction.atomic(using=using):
            TaskEvent.objects.using(using).filter(task_id__in=ids).delete()
            TaskResult.objects.using(using).filter(task_id__in=ids).delete()
            Task.objects.using(using).finished().filter(pk__in=ids)._raw_delete(using)
        yield len(ids)
        after = ids[-1]


def expired(status: Status, before: datetime, after: UUID | None, batch: int, using: str) -> list[UUID]:
    """Walks the primary key, whose ids sort by time of creation: what finished before a day was made before it."""
    newest = first_of(int(before.timestamp() * 1000) + 86_400_000)
    found = TaskResult.objects.using(using).filter(status=status, finished_at__lt=before, pk__lt=newest)
    if after is not None:
        found = found.filter(pk__gt=after)
    return list(found.order_by("pk").values_list("pk", flat=True)[:batch])
