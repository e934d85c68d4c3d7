"""What becomes of a batch when something is decided about the task that waits for it, or about a member."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def still_needed(ids: Sequence[UUID], using: str) -> set[UUID]:
    """Members whose results somebody may still ask for: what waits for them, or began it all, has not ended."""
    tasks = Task.objects.using(using)
    rows = list(tasks.filter(pk__in=ids, batch__isnull=False).values_list("pk", "batch", "parent_id", "run_id"))
    if not rows:
        return set()
    keys = keys_of({batch for _, batch, _, _ in rows})
    awaited = set(tasks.suspended().filter(waits_for__in=keys).values_list("waits_for", flat=True))
    above = {pk for _, _, *others in rows for pk in others if pk is not None}
    unfinished = set(tasks.unfinished().filter(pk__in=above).values_list("pk", flat=True))
    return {
        pk for pk, batch, parent, run in rows if {parent, run} & unfinished or not awaited.isdisjoint(keys_of([batch]))
    }
