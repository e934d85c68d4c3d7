"""Which tasks an operator means, signed: a filter as the list showed it, or a few ids; never thousands of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from uuid import UUID

from django.core import signing

from ..models import Task
from ..querysets import TaskQuerySet
from ..rules.status import Status
from ..taskqueue import summaries
from . import filters

SALT = "django_tasks_retry.admin.selection"
MAX_AGE = 3600
PREVIEW = 10_000
STRIDE = 50_000
"""How many tasks are passed at a time where matches may be rare."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Tasks up to `until`, so that what arrives later is not caught; `after` tells how far the work has come.

    `since` is how far the list looked back where no index answers its filter; the work goes back to the beginning.
    """

    deed: str
    user: str
    until: str
    since: str | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    ids: tuple[str, ...] | None = None
    after: str | None = None
    done: int = 0
    skipped: int = 0

    def sign(self) -> str:
        return signing.dumps(asdict(self), salt=SALT, compress=True)

    def tasks(self, using: str) -> TaskQuerySet:
        """Those still to be dealt with, in the order in which they are."""
        tasks: TaskQuerySet = Task.objects.using(using).filter(pk__lte=UUID(self.until)).order_by("pk")
        tasks = filters.narrow(tasks, self.params) if self.ids is None else tasks.filter(pk__in=self.ids)
        return tasks if self.after is None else tasks.filter(pk__gt=UUID(self.after))

    def batch(self, size: int, using: str) -> tuple[list[UUID], UUID | None]:
        """The next tasks to deal with, and the id that was reached; None where all were."""
        tasks, bound = self.tasks(using), None
        if self.since is not None:
            bound = summaries.id_after(STRIDE, using, UUID(self.after) if self.after else None)
            tasks = tasks if bound is None else tasks.filter(pk__lte=bound)
        ids = list(tasks.values_list("pk", flat=True)[:size])
        return ids, ids[-1] if len(ids) == size else bound

    def went_on(self, reached: UUID | None, done: int, skipped: int) -> Selection:
        after = self.after if reached is None else str(reached)
        return replace(self, after=after, done=self.done + done, skipped=self.skipped + skipped)


class NotSigned(Exception):
    """The selection is not one that this console signed for this user, or too old."""


def read(token: str, user: Any) -> Selection:
    try:
        values = signing.loads(token, salt=SALT, max_age=MAX_AGE)
    except signing.BadSignature as error:
        raise NotSigned from error
    selection = Selection(**values)
    if selection.user != str(user.pk):
        raise NotSigned
    return selection


@dataclass(frozen=True, slots=True)
class Preview:
    """A dry run: how many of the selected would move. Rows are checked again when it is done."""

    possible: int
    impossible: int
    is_capped: bool
    is_partial: bool

    @property
    def is_whole(self) -> bool:
        return not (self.is_capped or self.is_partial)


def preview(selection: Selection, statuses: tuple[Status, ...], using: str) -> Preview:
    tasks = selection.tasks(using)
    if selection.since is not None:
        tasks = tasks.filter(pk__gte=UUID(selection.since))
    rows = list(tasks.values_list("status", flat=True)[: PREVIEW + 1])
    looked_at = rows[:PREVIEW]
    possible = sum(status in statuses for status in looked_at)
    return Preview(possible, len(looked_at) - possible, len(rows) > PREVIEW, selection.since is not None)
