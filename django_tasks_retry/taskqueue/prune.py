"""Prune: delete finished tasks past their retention, a batch at a time, never holding a lock for long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction

from ..clock import now
from ..conf import options
from ..models import Task, TaskEvent, TaskResult
from ..rules.ids import first_of
from ..rules.status import Status
from .database import database

BATCH = 1000
DAY_MS = 86_400_000


def prune(
    *, backend: str = "default", keep: Mapping[Status, float | None] | None = None, batch: int = BATCH
) -> Iterator[int]:
    """Delete and yield the size of each batch. `keep` gives seconds per status; None keeps a status for ever."""
    using, retention = database(backend), retention_of(backend) | dict(keep or {})
    moment = now(using)
    limits = {
        status: moment - timedelta(seconds=seconds) for status, seconds in retention.items() if seconds is not None
    }
    if not limits:
        return
    for page in pages(max(limits.values()), batch, using):
        ids = [
            task_id
            for task_id, status, finished_at in page
            if (limit := limits.get(Status(status))) and finished_at < limit
        ]
        if ids:
            yield delete(ids, using)


def retention_of(backend: str) -> dict[Status, float | None]:
    chosen = options(backend)
    return {
        Status.SUCCESS: chosen.keep_success,
        Status.FAILED: chosen.keep_failed,
        Status.CANCELLED: chosen.keep_cancelled,
    }


def pages(before: datetime, size: int, using: str) -> Iterator[list[tuple[UUID, str, datetime]]]:
    """Results in the order of their ids, which sort by time of creation: what finished before a day was made before it.

    The age is not part of the question: an index walk from page to page stays one whatever the statistics say.
    """
    newest = first_of(int(before.timestamp() * 1000) + DAY_MS)
    walk = TaskResult.objects.using(using).filter(pk__lt=newest).order_by("pk")
    rows = walk.values_list("pk", "status", "finished_at")
    page = list(rows[:size])
    while page:
        yield page
        page = list(rows.filter(pk__gt=page[-1][0])[:size])


def delete(ids: Sequence[UUID], using: str) -> int:
    with transaction.atomic(using=using):
        ids = free(ids, using)
        Task.objects.using(using).finished().filter(pk__in=ids)._raw_delete(using)
        TaskEvent.objects.using(using).filter(task_id__in=ids).delete()
        TaskResult.objects.using(using).filter(task_id__in=ids).delete()
    return len(ids)


def free(ids: Sequence[UUID], using: str) -> Sequence[UUID]:
    """Without those that somebody else keeps locked, which the next pruning finds."""
    tasks = Task.objects.using(using).filter(pk__in=ids)
    locked = set(tasks.order_by("pk").select_for_update(skip_locked=True).values_list("pk", flat=True))
    if len(locked) == len(ids):
        return ids
    others = set(tasks.values_list("pk", flat=True)) - locked
    return [task_id for task_id in ids if task_id not in others]
