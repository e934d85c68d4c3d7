"""What becomes of a batch when something is decided about the task that waits for it, or about a member."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from django.db.models import Q

from ...models import Step, Task
from .batches import IS_OPEN, batches_of
from .callbacks import give_steps
from .memory import CALLBACK, Kind
from .wake import keys_of, wake_later

FORGOTTEN = Q(kind=Kind.WAIT) | Q(kind=Kind.SIGNAL, result__isnull=True)
"""A signal that did not come in time is waited for anew."""


def members_below(ids: Sequence[UUID], using: str) -> list[UUID]:
    """The unfinished members of what these tasks wait for."""
    batches = batches_of(ids, using)
    if not batches:
        return []
    members = Task.objects.using(using).filter(IS_OPEN, batch__in=batches).order_by("pk")
    return list(members.values_list("pk", flat=True))


def wake_above(ids: Sequence[UUID], using: str) -> None:
    """Whoever waits for a batch of which these were members may have waited for the last of them."""
    members = Task.objects.using(using).filter(pk__in=ids, batch__isnull=False)
    wake_later(keys_of(set(members.values_list("batch", flat=True))), using)


def hand_on_steps(heirs: Mapping[UUID, UUID], using: str, *, resume: bool) -> None:
    """Give retries what the task before remembered: all of it where they resume, else which batch they follow."""
    steps = Step.objects.using(using).filter(task_id__in=list(heirs)).exclude(FORGOTTEN).order_by("pk")
    if not resume:
        steps = steps.filter(name=CALLBACK, kind=Kind.BATCH, attempt=0)
    rows = steps.values_list("task_id", "name", "kind", "result")
    give_steps([(heirs[task_id], name, kind, result) for task_id, name, kind, result in rows], using)


class Origin(NamedTuple):
    """Where a member comes from. Its batch bears the name of its callback, where it has one."""

    pk: UUID
    batch: UUID
    parent: UUID | None
    run: UUID
    retry_of: UUID | None


def still_needed(ids: Sequence[UUID], using: str) -> set[UUID]:
    """Members whose results somebody may still ask for: what waits for them, or began it all, has not ended."""
    members = origins_of(ids, using)
    if not members:
        return set()
    earlier = earlier_members(members, using)
    above = {each.pk: family_of(each, earlier) for each in members}
    unfinished = unfinished_of(set().union(*above.values()), using)
    return {pk for pk, family in above.items() if not family.isdisjoint(unfinished)}


def origins_of(ids: Iterable[UUID], using: str) -> list[Origin]:
    members = Task.objects.using(using).filter(pk__in=list(ids), batch__isnull=False)
    return [Origin(*row) for row in members.values_list("pk", "batch", "parent_id", "run_id", "retry_of_id")]


def earlier_members(members: Iterable[Origin], using: str) -> dict[UUID, Origin]:
    """What they are retries of, and those in turn: a retry has no parent of its own."""
    found: dict[UUID, Origin] = {}
    while wanted := {each.retry_of for each in members if each.retry_of and each.retry_of not in found}:
        members = origins_of(wanted, using)
        found |= {each.pk: each for each in members}
    return found


def family_of(member: Origin | None, earlier: Mapping[UUID, Origin]) -> set[UUID]:
    """The tasks that may ask for its result: by themselves, or by their retries."""
    family: set[UUID] = set()
    while member is not None:
        family |= {member.batch, member.run, *filter(None, [member.parent])}
        member = earlier.get(member.retry_of) if member.retry_of else None
    return family


def resumable(ids: Sequence[UUID], using: str) -> set[UUID]:
    """Those of them that remember something, and lead to a retry that has not ended: it may go on from there."""
    remembering = list(Step.objects.using(using).filter(task_id__in=ids).values_list("task_id", flat=True).distinct())
    if not remembering:
        return set()
    found = Task.objects.using(using).filter(retry_of__in=remembering)
    retries: dict[UUID, UUID] = dict(found.values_list("pk", "retry_of_id"))
    return {retries[pk] for pk in unfinished_of(set(retries), using)}


def unfinished_of(ids: set[UUID], using: str) -> set[UUID]:
    """Those of them that have not ended, or have been retried by a task that has not."""
    tasks, leads_to = Task.objects.using(using), {pk: pk for pk in ids}
    found: set[UUID] = set()
    newer = set(ids)
    while newer:
        found |= {leads_to[pk] for pk in tasks.unfinished().filter(pk__in=newer).values_list("pk", flat=True)}
        retries = list(tasks.filter(retry_of__in=newer).values_list("pk", "retry_of_id"))
        leads_to |= {pk: leads_to[of] for pk, of in retries}
        newer = {pk for pk, _ in retries}
    return found
