"""Cancel tasks and the members that they wait for; and finish what a canceller did not come to.

A canceller commits the parent first and its members afterwards. It may die in between, or give up on a member that
somebody else keeps locked. So any worker looks through the batches with unfinished members, a page at a time.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models.fields.json import KeyTextTransform

from ...models import Step, Task, TaskEvent
from ...rules.names import NIL
from ...rules.payload import noted
from ...rules.status import Status
from ...rules.transitions import EventKind
from ..database import UNREADABLE, database
from ..engines import engine_for
from ..enqueue.notify import notify_cancelled, notify_cancelled_on_commit
from ..events import actor_of
from ..reading import log_once
from ..timeouts import until_free
from .members import ancestry, members_of, open_members, retries_of, unfinished_below
from .steps import StepKind
from .wake import wake_waiters

PAGE = 200  # batches that one sweep looks at
MOST = 500  # members of one batch that one sweep cancels: on SQLite others wait for it, and a supervisor has other work


CHUNK = 1000


@dataclass(frozen=True, slots=True)
class Changed:
    """The tasks that were changed, and how many were skipped."""

    done: list[UUID] = field(default_factory=list)
    skipped: int = 0


def cancel(ids: Iterable[UUID], *, by: Any = None, reason: str = "", backend: str = "default") -> Changed:
    """Cancel tasks, pending or running. A running one loses its lease here; its worker learns it and stops.

    Rows that others keep locked are skipped after a while, and hold up no other.
    """
    changed, order = Changed(), Cancellation(database(backend), actor_of(by), noted(reason))
    for chunk in chunks(ids):
        done = cancel_unfinished(chunk, order)
        changed = tally(changed, chunk, done)
        cancel_below(done, order)
        wake_waiters(done, order.using)
    return changed


class Cancellation(NamedTuple):
    """By whom, why, and how the workers are told that run what was cancelled."""

    using: str
    actor: str
    reason: str
    notify: Callable[[Iterable[UUID], str], None] = notify_cancelled_on_commit


def cancel_below(ids: Sequence[UUID], order: Cancellation) -> None:
    """Cancel the unfinished members that these tasks waited for, and those that the members waited for, and so on.

    A worklist instead of recursion: a chain of a few hundred levels would exceed Python's recursion limit.
    """
    parents = [ids]
    while parents:
        for done in cancel_level(parents.pop(), order):
            wake_waiters(done, order.using)
            parents.append(done)


def cancel_level(ids: Sequence[UUID], order: Cancellation) -> Iterator[list[UUID]]:
    """Cancel the members that these tasks wait for, in chunks. Look again: one that still ran may have added some."""
    before: list[UUID] = []
    while (members := unfinished_below(ids, order.using)) != before:
        for chunk in chunks(members):
            yield cancel_unfinished(chunk, order)
        before = members


def cancel_unfinished(ids: Sequence[UUID], order: Cancellation) -> list[UUID]:
    unfinished = Task.objects.using(order.using).unfinished()
    return until_free(unfinished, ids, partial(cancel_free, order=order))


def cancel_free(ids: Sequence[UUID], *, wait: bool, order: Cancellation) -> list[UUID]:
    ended = engine_for(order.using).cancel(ids, order.actor, order.reason, wait=wait)
    order.notify({task_id for task_id, was_running in ended.items() if was_running}, order.using)
    return list(ended)


def chunks(ids: Iterable[UUID]) -> Iterator[list[UUID]]:
    rest = iter(ids)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk


def tally(changed: Changed, asked: Sequence[UUID], done: list[UUID]) -> Changed:
    return Changed(changed.done + done, changed.skipped + len(asked) - len(done))


@dataclass(slots=True)
class CancelSweep:
    """Cancels members of cancelled tasks, a page of batches in each call."""

    backend: str = "default"
    after: UUID = NIL
    is_behind: bool = False  # whether the page may hold more to cancel, which the next call goes on with

    def __call__(self) -> list[UUID]:
        using = database(self.backend)
        page = self.next_page(using)
        tasks = Task.objects.using(using).unfinished().filter(pk__in=[pk for found in page for pk in found if pk])
        unfinished: dict[UUID | None, UUID | None] = dict(tasks.values_list("pk", "batch"))
        cancelled: list[UUID] = []
        self.is_behind = False
        for batch, parent in page:
            # A parent in the same batch has added the member: another task waits for the batch.
            if batch not in unfinished and unfinished.get(parent, batch) == batch:
                ended = finish_cancelling(batch, parent, using)
                self.is_behind |= len(ended) >= MOST
                cancelled += ended
        if not self.is_behind:
            self.after = page[-1][0] if page else NIL
        return cancelled

    def next_page(self, using: str) -> list[tuple[UUID, UUID | None]]:
        """Return the next open batches, each with the parent of its first member; from the start after the last."""
        batches = engine_for(using).open_batches
        return batches(self.after, PAGE) or (batches(NIL, PAGE) if self.after != NIL else [])


def finish_cancelling(batch: UUID, parent: UUID | None, using: str) -> list[UUID]:
    """Cancel the members of this batch if the task that waited for it was cancelled."""
    try:
        # The batch of a callback has the id of that task.
        is_callback = Task.objects.using(using).filter(pk=batch).exists()
        first = batch if is_callback else outside(batch, parent, using)
        gatherer = first and last_gatherer(first, batch, using)
        if gatherer and gatherer.status == Status.CANCELLED:
            return cancel_members(batch, gatherer, using)
    except UNREADABLE as error:
        log_once(
            "batch %s is not checked for a cancelled parent, for a row cannot be read: %s; cancel its members "
            "yourself if they should not run",
            str(batch),
            type(error).__name__,
        )
    return []


class Lineage(NamedTuple):
    """A member, and the task that it retries or that added it."""

    batch: UUID | None
    above: UUID | None
    retried_at: datetime | None  # the time at which a person or code retried the task above it


def read_lineage(ids: Iterable[UUID], using: str) -> dict[UUID, Lineage]:
    """Read tasks and, for members of a batch, the tasks above them. Rows may form a circle, which is read once."""
    known: dict[UUID, Lineage] = {}
    wanted = set(ids)
    columns = ("pk", "batch", "retry_of_id", "parent_id", "created_at")
    while wanted:
        rows = Task.objects.using(using).filter(pk__in=wanted).values_list(*columns)
        links = {pk: Lineage(batch, of or parent, ts if of else None) for pk, batch, of, parent, ts in rows}
        known |= links
        wanted = {link.above for link in links.values() if link.batch and link.above} - known.keys()
    return known


def outside(batch: UUID, pk: UUID | None, using: str) -> UUID | None:
    """Return the first task at or above this one that is no member of the batch: one member may have added another."""
    lineage = read_lineage([pk] if pk else [], using)
    above = {member: link.above for member, link in lineage.items() if link.batch == batch}
    return next((each for each in ancestry(pk, above) if each not in above), None) if pk else None


def last_gatherer(pk: UUID, batch: UUID, using: str) -> Task | None:
    """Return the task, or its newest retry, that waited for the batch; an unfinished one if there is any."""
    found = {pk, *retries_of({pk}, using)}
    steps = Step.objects.using(using).filter(task_id__in=found, kind=StepKind.BATCH, result__batch=str(batch))
    ids = list(steps.values_list("task_id", flat=True))
    gatherers = Task.objects.using(using).filter(pk__in=ids).only("status", "finished_at")
    newest: list[Task] = sorted(gatherers, key=lambda task: (not task.is_finished, task.pk))
    return newest[-1] if newest else None


def cancel_members(batch: UUID, gatherer: Task, using: str) -> list[UUID]:
    """Cancel unfinished members for the reason of their parent's cancellation. Skips those that somebody keeps locked.

    Members that were retried since, and those that the retries added, run on: that was a decision of its own.
    """
    since = gatherer.finished_at
    members = open_members(batch, using).values_list("pk", flat=True)
    ids: Sequence[UUID] = list(members[:MOST])
    if members_of(batch, using).filter(retry_of__isnull=False, created_at__gt=since).exists():
        retried = retried_since(since, members, using)
        ids = [pk for pk in members if pk not in retried][:MOST]
    events = TaskEvent.objects.using(using).filter(task_id=gatherer.pk, kind=EventKind.CANCELLED)
    actor, reason = events.values_list("actor", KeyTextTransform("reason", "data")).first() or ("queue", "")
    order = Cancellation(using, actor, noted(reason or ""), notify_cancelled)
    ended = cancel_free(ids, wait=False, order=order) if ids else []
    wake_waiters(ended, using)
    return ended


def retried_since(moment: datetime, ids: Iterable[UUID], using: str) -> set[UUID]:
    """Return the tasks that are retries made since this instant, or were added by such retries."""
    lineage = read_lineage(ids, using)
    above = {pk: link.above for pk, link in lineage.items()}
    fresh = {pk for pk, link in lineage.items() if link.retried_at and link.retried_at > moment}
    return {pk for pk in lineage if not fresh.isdisjoint(ancestry(pk, above))}
