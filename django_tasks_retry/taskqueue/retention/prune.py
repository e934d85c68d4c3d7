"""Prune: delete finished tasks past their retention, a batch at a time, never holding a lock for long."""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction

from ...clock import now
from ...conf import options
from ...models import Step, Task, TaskEvent, TaskResult
from ...rules.names import first_of
from ...rules.status import Status
from ..database import database
from ..engines import engine_for
from ..workflows.members import resumable, still_needed
from .archive import Archive, archive_of
from .drop import drop_past, row_pages
from .export import export_tasks
from .layout import read_layout
from .payload_files import delete_with_tasks, files_in_rows

logger = logging.getLogger("django_tasks_retry")
BATCH = 1000
DAY_MS = 86_400_000


def prune(
    *, backend: str = "default", keep: Mapping[Status, float | None] | None = None, batch: int = BATCH
) -> Iterator[int]:
    """Delete and yield the size of each batch. `keep` gives seconds per status; None keeps a status for ever."""
    return filter(None, prune_pages(backend=backend, keep=keep, batch=batch))


def prune_pages(
    *, backend: str = "default", keep: Mapping[Status, float | None] | None = None, batch: int = BATCH
) -> Iterator[int]:
    """Prune a page at a time, so that no step takes long; yield 0 for a page on which everything is kept."""
    using, export = database(backend), archive_of(backend)
    if keep is None and (layout := read_layout(using)):
        yield from drop_past(layout, using, export)
    for past in past_pages(backend, keep or {}, batch):
        try:
            yield delete(past, backend, using, export) if past else 0
        except OSError as error:
            logger.warning("pruning stopped, because tasks cannot be exported: %s", error)
            return


def prunable(*, backend: str = "default", batch: int = BATCH) -> Iterator[Counter[tuple[str, str]]]:
    """Count what `prune` would delete, a page at a time, by queue and status. Changes nothing."""
    tasks = Task.objects.using(database(backend)).filter(backend=backend)
    for past in past_pages(backend, {}, batch):
        yield Counter(tasks.filter(pk__in=past).values_list("queue", "status"))


def past_pages(backend: str, keep: Mapping[Status, float | None], batch: int) -> Iterator[list[UUID]]:
    """Page by page, the tasks that are past their retention."""
    using, retention = database(backend), retention_of(backend) | dict(keep)
    moment = now(using)
    limits = {
        status: moment - timedelta(seconds=seconds) for status, seconds in retention.items() if seconds is not None
    }
    if not limits:
        return
    before = max(limits.values())
    parted = row_pages(backend, dict(keep), before, batch, using)
    for page in pages(before, moment, batch, using) if parted is None else parted:
        yield [
            task_id
            for task_id, status, finished_at in page
            if (limit := limits.get(Status(status))) and finished_at is not None and finished_at < limit
        ]


def retention_of(backend: str) -> dict[Status, float | None]:
    chosen = options(backend)
    return {
        Status.SUCCESS: chosen.keep_success,
        Status.FAILED: chosen.keep_failed,
        Status.CANCELLED: chosen.keep_cancelled,
    }


def pages(before: datetime, moment: datetime, size: int, using: str) -> Iterator[list[tuple[UUID, str, datetime]]]:
    """Results in the order of their ids, which sort by time of creation: what finished before a day was made before it.

    Ids that lie in the future, made by a host whose clock was ahead, come last; there are few, if any. The age is not
    part of the question: an index walk from page to page stays one whatever the statistics say.
    """
    newest, future = a_day_after(before), a_day_after(moment)
    results = TaskResult.objects.using(using).order_by("pk").values_list("pk", "status", "finished_at")
    for rows in (results.filter(pk__lt=newest), results.filter(pk__gte=max(newest, future))):
        page = list(rows[:size])
        while page:
            yield page
            page = list(rows.filter(pk__gt=page[-1][0])[:size])


def a_day_after(moment: datetime) -> UUID:
    return first_of(int(moment.timestamp() * 1000) + DAY_MS)


def delete(past: Sequence[UUID], backend: str, using: str, export: Archive | None = None) -> int:
    """Delete tasks of this backend only: others in the same database may keep theirs for longer."""
    kept = resumable(past, using)
    past = [task_id for task_id in past if task_id not in kept]
    files = files_in_rows(past, backend, using, export)
    done, rest = (0, past) if export else engine_for(using).prune(past, backend)
    done += delete_members(rest, backend, using, export) if rest else 0
    delete_with_tasks(files, using)
    return done


def delete_members(past: Sequence[UUID], backend: str, using: str, export: Archive | None) -> int:
    others = Task.objects.using(using).filter(pk__in=past).exclude(backend=backend)
    kept = set(others.values_list("pk", flat=True)) | still_needed(past, using)
    ids = [task_id for task_id in past if task_id not in kept]
    return delete_tasks(ids, using, export) if ids else 0


def delete_tasks(ids: Sequence[UUID], using: str, export: Archive | None = None) -> int:
    with transaction.atomic(using=using):
        ids = free(ids, using)
        if export is not None:
            export_tasks(ids, export, now(using), using)
        Task.objects.using(using).finished().filter(pk__in=ids)._raw_delete(using)
        TaskEvent.objects.using(using).filter(task_id__in=ids).delete()
        Step.objects.using(using).filter(task_id__in=ids).delete()
        TaskResult.objects.using(using).filter(task_id__in=ids).delete()
    return len(ids)


def free(ids: Sequence[UUID], using: str) -> Sequence[UUID]:
    """Drop tasks that somebody else keeps locked; the next pruning finds them."""
    tasks = Task.objects.using(using).filter(pk__in=ids)
    locked = set(tasks.order_by("pk").select_for_update(skip_locked=True).values_list("pk", flat=True))
    if len(locked) == len(ids):
        return ids
    others = set(tasks.values_list("pk", flat=True)) - locked
    return [task_id for task_id in ids if task_id not in others]
