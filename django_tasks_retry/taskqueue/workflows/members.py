"""Members of batches, the keys by which tasks wait for a batch or a signal, and what `prune` keeps for workflows."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import BooleanField, OuterRef, Subquery
from django.db.models.expressions import RawSQL
from django.db.models.fields.json import KeyTextTransform

from ...models import Step, Task, TaskQuerySet
from .steps import StepKind

logger = logging.getLogger("django_tasks_retry")
BATCH, CANARY, SIGNAL, FAIL_FAST = "batch:", "canary:", "signal:", ":fail_fast"
HAS_FAILED = RawSQL("status IN ('FAILED', 'CANCELLED')", [], BooleanField())


def batch_key(batch: UUID, *, fail_fast: bool = False) -> str:
    return f"{BATCH}{batch}{FAIL_FAST if fail_fast else ''}"


def signal_key(name: str) -> str:
    return f"{SIGNAL}{name}"


def batch_of(key: str) -> UUID | None:
    """Return the batch that a task waits for; None if it waits for a signal, or its key names no batch."""
    return as_batch(key.removeprefix(BATCH).removesuffix(FAIL_FAST)) if key.startswith(BATCH) else None


def as_batch(value: Any) -> UUID | None:
    """Return the id of a batch as it was written; None for any other value."""
    try:
        batch = UUID(value)
    except (TypeError, ValueError, AttributeError):
        return None
    return batch if str(batch) == value else None


def keys_of(batches: Iterable[UUID]) -> list[str]:
    return [batch_key(batch, fail_fast=fast) for batch in batches for fast in (False, True)]


def members_of(batch: UUID, using: str) -> TaskQuerySet:
    members: TaskQuerySet = Task.objects.using(using).filter(batch=batch)
    return members


def open_members(batch: UUID, using: str) -> TaskQuerySet:
    """Return unfinished members, in the order of an index that holds no others."""
    return members_of(batch, using).filter(finished_at=None).order_by("finished_at", "pk")


def without_success(batch: UUID, using: str) -> TaskQuerySet:
    """Return members that failed or were cancelled and not retried since; of several retries the last one counts.

    Retries are looked up one by one, by their original alone, whose batch they share. With statistics from before a
    burst, a planner would compare each failed member with all others.
    """
    retries = Task.objects.filter(retry_of=OuterRef("pk")).values("pk")[:1]
    later = Task.objects.filter(retry_of=OuterRef("retry_of"), pk__gt=OuterRef("pk")).values("pk")[:1]
    failed = members_of(batch, using).filter(HAS_FAILED).order_by("pk")
    return failed.alias(retried=Subquery(retries), outlived=Subquery(later)).filter(retried=None, outlived=None)


def batches_of(ids: Sequence[UUID], using: str) -> set[UUID]:
    """Return the batches that these tasks have gathered, or are the callbacks of."""
    steps = Step.objects.using(using).filter(task_id__in=ids, kind=StepKind.BATCH)
    # The server takes the name out of the result: one that Python cannot decode would cost all others, too.
    named = dict(steps.values_list("pk", KeyTextTransform("batch", "result")))
    batches = {pk: as_batch(name) for pk, name in named.items()}
    for task_id, name in steps.filter(pk__in=[pk for pk in named if not batches[pk]]).values_list("task_id", "name"):
        logger.warning("step %r of task %s names no batch; cancel its members, if any, yourself", name, task_id)
    return {batch for batch in batches.values() if batch}


def unfinished_below(ids: Sequence[UUID], using: str) -> list[UUID]:
    """Return the unfinished members of the batches that these tasks wait for."""
    batches = batches_of(ids, using)
    if not batches:
        return []
    members = Task.objects.using(using).filter(finished_at=None, batch__in=batches).order_by("pk")
    return list(members.values_list("pk", flat=True))


def ancestry(pk: UUID, above: Mapping[UUID, UUID | None]) -> list[UUID]:
    """Return the task and the tasks above it. Rows may form a circle, which is followed once."""
    found: dict[UUID, None] = {}
    step: UUID | None = pk
    while step is not None and step not in found:
        found[step] = None
        step = above.get(step)
    return list(found)


class Member(NamedTuple):
    """A member of a batch and its origin. A batch with a callback has the id of that task."""

    pk: UUID
    batch: UUID
    parent: UUID | None
    run: UUID
    retry_of: UUID | None


def still_needed(ids: Sequence[UUID], using: str) -> set[UUID]:
    """Return members whose results may still be read: a task that waits for them, or their run, is unfinished."""
    members = read_members(ids, using)
    if not members:
        return set()
    known = {each.pk: each for each in members} | earlier_members(members, using)
    retry_of = {each.pk: each.retry_of for each in known.values()}
    waiters = {each.pk: waiters_of(ancestry(each.pk, retry_of), known) for each in members}
    unfinished = unfinished_of(set().union(*waiters.values()), using)
    return {pk for pk, ids_of in waiters.items() if not ids_of.isdisjoint(unfinished)}


def read_members(ids: Iterable[UUID], using: str) -> list[Member]:
    members = Task.objects.using(using).filter(pk__in=list(ids), batch__isnull=False)
    return [Member(*row) for row in members.values_list("pk", "batch", "parent_id", "run_id", "retry_of_id")]


def earlier_members(members: Iterable[Member], using: str) -> dict[UUID, Member]:
    """Return the tasks that these retried, and so on: a retry has no parent of its own."""
    found: dict[UUID, Member] = {}
    while wanted := {each.retry_of for each in members if each.retry_of and each.retry_of not in found}:
        members = read_members(wanted, using)
        found |= {each.pk: each for each in members}
    return found


def waiters_of(retried: Iterable[UUID], known: Mapping[UUID, Member]) -> set[UUID]:
    """Return the tasks that may read the result of these, by themselves or by their retries."""
    members = [known[pk] for pk in retried if pk in known]
    return {waiter for each in members for waiter in (each.batch, each.run, each.parent) if waiter}


def resumable(ids: Sequence[UUID], using: str) -> set[UUID]:
    """Return those with steps that an unfinished retry may resume from."""
    remembering = list(Step.objects.using(using).filter(task_id__in=ids).values_list("task_id", flat=True).distinct())
    if not remembering:
        return set()
    found = Task.objects.using(using).filter(retry_of__in=remembering)
    retries: dict[UUID, UUID] = dict(found.values_list("pk", "retry_of_id"))
    return {retries[pk] for pk in unfinished_of(set(retries), using)}


def unfinished_of(ids: set[UUID], using: str) -> set[UUID]:
    """Return those that are unfinished, or have an unfinished retry."""
    retry_of = retries_of(ids, using)
    tasks = Task.objects.using(using).unfinished().filter(pk__in=ids | retry_of.keys())
    return {each for pk in tasks.values_list("pk", flat=True) for each in ancestry(pk, retry_of)} & ids


def retries_of(ids: set[UUID], using: str) -> dict[UUID, UUID | None]:
    """Return the retries of these tasks, their retries and so on, each with the task that it retries."""
    found: dict[UUID, UUID | None] = {}
    newer = ids
    while newer:
        retries = dict(Task.objects.using(using).filter(retry_of__in=newer).values_list("pk", "retry_of_id"))
        newer = retries.keys() - found.keys() - ids  # rows may form a circle
        found |= retries
    return found
