"""Batches: tasks that are waited for together. A batch has no row of its own: it is its members."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from django.db.models import BooleanField, Exists, OuterRef
from django.db.models.expressions import RawSQL

from ...errors import InvalidCall
from ...models import Step, Task
from ...querysets import TaskQuerySet
from ..database import database
from ..producer.announce import tell_enqueued
from ..producer.around import insert_within
from ..producer.bulk import home_of
from ..producer.enqueue import Common, Request, prepare
from .memory import Kind, Memory, one_commit

# SQLite takes a partial index only where its condition stands in the question word for word, not as parameters.
IS_OPEN = RawSQL("status IN ('PENDING', 'RUNNING')", [], BooleanField())
HAS_FAILED = RawSQL("status IN ('FAILED', 'CANCELLED')", [], BooleanField())


def prepared_members(calls: Iterable[Any], batch: UUID) -> list[Task]:
    """The calls as members of the batch, not yet written."""
    common: dict[tuple[int, ...], Common] = {}
    tasks = [prepare(Request.read(item), common) for item in calls]
    for task in tasks:
        if task.unique_key is not None:
            raise InvalidCall(
                f"unique_key={task.unique_key!r}: a member of a batch is waited for, so it cannot be left out in "
                "favour of a task elsewhere. Leave the key out, or enqueue the task by itself."
            )
        task.batch = batch
    return tasks


def write_members(tasks: Sequence[Task], backend: str) -> list[Task]:
    if tasks and home_of(tasks) != database(backend):
        raise InvalidCall("The members of a batch live in another database than the task that waits for them.")
    return insert_within(tasks, database(backend)) if tasks else []


def start_batch(memory: Memory, name: str, kind: Kind, batch: UUID, calls: Iterable[Any]) -> None:
    """Write the members and the step that names them, in one commit and under the fence."""
    members, lease = prepared_members(calls, batch), memory.lease
    with one_commit(lease):
        written = write_members(members, lease.backend)
        memory.remember(name, kind, {"batch": str(batch), "count": len(written)})
    tell_enqueued(written)


def members_of(batch: UUID, using: str) -> TaskQuerySet:
    members: TaskQuerySet = Task.objects.using(using).filter(batch=batch)
    return members


def open_members(batch: UUID, using: str) -> TaskQuerySet:
    """Those that have not ended, in the order of an index that holds no others."""
    return members_of(batch, using).filter(IS_OPEN).order_by("pk")


def without_success(batch: UUID, using: str) -> TaskQuerySet:
    """Members that failed or were cancelled, and were not retried since; of several retries the last one counts."""
    others = Task.objects.filter(batch=OuterRef("batch"))
    retries, later = others.filter(retry_of=OuterRef("pk")), others.filter(retry_of=OuterRef("retry_of"))
    failed = members_of(batch, using).filter(HAS_FAILED)
    return failed.exclude(Exists(retries)).exclude(Exists(later.filter(pk__gt=OuterRef("pk")))).order_by("pk")


def batches_of(ids: Sequence[UUID], using: str) -> set[UUID]:
    """The batches that these tasks have gathered, or are the callbacks of."""
    named = Step.objects.using(using).filter(task_id__in=ids, kind=Kind.BATCH).values_list("result", flat=True)
    return {UUID(result["batch"]) for result in named if result}
