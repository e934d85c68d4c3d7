"""Which tasks an operator selected, signed: the list's filters, or a few ids; never thousands of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.core import signing
from django.db.models import Exists, OuterRef

from ...models import Queue, Task
from ...querysets import TaskQuerySet
from ...rules.status import Status
from ...selection.payload import matching_ids
from ...taskqueue.operator import failure_groups, summaries
from ..tasks import filters, search

SALT = "django_tasks_retry.admin.selection"
MAX_AGE = 3600
DRY_RUN_LIMIT = 10_000
STRIDE = 50_000
"""How many tasks are passed at a time where matches may be rare."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Tasks up to the id `until`, so that later ones are not affected; `after` is the last id that was dealt with.

    `since` is how far the list looked back where no index serves its filters; the action goes back to the beginning.
    """

    action: str
    user: str
    until: str
    since: str | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    sees_payload: bool = False
    """Whether a search for an error may look at messages, as it did in the list."""
    ids: tuple[str, ...] | None = None
    after: str | None = None
    done: int = 0
    skipped: int = 0
    paused: tuple[str, ...] = ()
    """Paused queues that tasks were changed in: they will not run yet."""
    start: str = ""
    step: float = 0.0
    """Where an action is spread over time: when the first task is due, and how many seconds later each next one."""

    def sign(self) -> str:
        return signing.dumps(asdict(self), salt=SALT, compress=True)

    def remaining(self, using: str) -> TaskQuerySet:
        """The tasks still to be dealt with, in the order of their ids."""
        tasks: TaskQuerySet = Task.objects.using(using).filter(pk__lte=UUID(self.until)).order_by("pk")
        if self.ids is None:
            tasks = filters.apply_filters(tasks, self.params, can_see_payload=self.sees_payload)
        else:
            tasks = tasks.filter(pk__in=self.ids)
        return tasks if self.after is None else tasks.filter(pk__gt=UUID(self.after))

    def next_batch(self, size: int, using: str) -> tuple[list[UUID], UUID | None]:
        """The next tasks to deal with, and the last id that was looked at; None where that was the end."""
        tasks, bound = self.remaining(using), None
        if self.since is not None:
            bound = summaries.id_after(STRIDE, using, UUID(self.after) if self.after else None)
            tasks = tasks if bound is None else tasks.filter(pk__lte=bound)
        ids = list(tasks.values_list("pk", flat=True)[:size])
        reached = ids[-1] if len(ids) == size else bound
        return self.visible(ids, using), reached

    def visible(self, ids: list[UUID], using: str) -> list[UUID]:
        """Without those that only hold the text of a search where nobody may see it."""
        query = search.parse("" if self.ids is not None else self.params.get("q", ""))
        if not query.has_payload:
            return ids
        matching = matching_ids(ids, query, using)
        return [task_id for task_id in ids if task_id in matching]

    def spread(self, start: datetime, seconds: float, count: int) -> Selection:
        """The same selection, its tasks due evenly over so many seconds; more than were counted go on at that pace."""
        return replace(self, start=start.isoformat(), step=seconds / max(count, 1))

    def due(self) -> dict[str, Any]:
        """When the tasks of the next batch are due, in the words of the service layer; nothing where at once."""
        if not self.start:
            return {}
        step = timedelta(seconds=self.step)
        return {"eta": datetime.fromisoformat(self.start) + (self.done + self.skipped) * step, "step": step}

    def advanced(self, reached: UUID | None, done: int, skipped: int, paused: Iterable[str] = ()) -> Selection:
        """The same selection after a batch."""
        after = self.after if reached is None else str(reached)
        queues = tuple(sorted({*self.paused, *paused}))
        return replace(self, after=after, done=self.done + done, skipped=self.skipped + skipped, paused=queues)


class InvalidSelection(Exception):
    """The selection was not signed by this console for this user, or is too old."""


def load_selection(token: str, user: Any) -> Selection:
    try:
        selection = Selection(**signing.loads(token, salt=SALT, max_age=MAX_AGE))
    except (signing.BadSignature, TypeError) as error:  # the latter for one that an older release signed
        raise InvalidSelection from error
    if selection.user != str(user.pk):
        raise InvalidSelection
    return replace(selection, paused=tuple(selection.paused))


@dataclass(frozen=True, slots=True)
class DryRun:
    """How many of the selected tasks the action would change. Each is checked again when it is changed.

    Of those, `succeeded` have done their work, and `retried` were retried before.
    """

    possible: int
    skipped: int
    is_capped: bool
    is_partial: bool
    succeeded: int = 0
    retried: int = 0
    paused: frozenset[str] = frozenset()
    """Paused queues that they are in."""

    @property
    def is_exact(self) -> bool:
        return not (self.is_capped or self.is_partial)


def looks_into_payload(selection: Selection) -> bool:
    return selection.ids is None and search.parse(selection.params.get("q", "")).has_payload


def dry_run(selection: Selection, statuses: tuple[Status, ...], using: str) -> DryRun:
    tasks = selection.remaining(using)
    if selection.since is not None:
        tasks = tasks.filter(pk__gte=UUID(selection.since))
    again = Exists(Task.objects.using(using).filter(retry_of=OuterRef("pk")))
    limit = search.MAX_CANDIDATES if looks_into_payload(selection) else DRY_RUN_LIMIT
    found = list(tasks.values_list("pk", "status", again, "queue")[: limit + 1])
    visible = set(selection.visible([pk for pk, *_rest in found], using))
    rows = [row for pk, *row in found if pk in visible]
    counted = [row for row in rows[:limit] if row[0] in statuses]
    return DryRun(
        possible=len(counted),
        skipped=min(len(rows), limit) - len(counted),
        is_capped=len(found) > limit,
        is_partial=selection.since is not None,
        succeeded=sum(status == Status.SUCCESS for status, _is_retried, _queue in counted),
        retried=sum(is_retried for _status, is_retried, _queue in counted),
        paused=frozenset(queue for _status, _is_retried, queue in counted) & paused_queues(using),
    )


def paused_queues(using: str) -> set[str]:
    return set(Queue.objects.using(using).paused().values_list("name", flat=True))


def paused_queues_of(ids: Sequence[UUID], using: str) -> set[str]:
    """The paused queues that these tasks are in."""
    paused = paused_queues(using)
    tasks = Task.objects.using(using).filter(pk__in=ids, queue__in=paused)
    return set(tasks.values_list("queue", flat=True)) if paused and ids else set()


def count_selected(selection: Selection, expected: DryRun, using: str) -> int:
    """How many tasks a retry is spread over: counted as far as that is cheap, beyond it estimated where possible."""
    if expected.is_exact:
        return expected.possible
    count = selection.remaining(using).values("pk")[: failure_groups.COUNTED + 1].count()
    if count <= failure_groups.COUNTED:
        return count
    return max(count, failure_groups.estimates(using).get(selection.params.get("fingerprint", ""), 0))
