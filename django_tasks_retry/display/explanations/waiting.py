"""What a task waits for, in a sentence."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.db.models import Count
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ...models import Task
from ...rules.backoff import MAX_DELAY
from ...rules.status import UNFINISHED, Status
from ...taskqueue.workflows.wake import SIGNAL, batch_of
from ..formatting import format_moment, format_number, one_line

ENDLESS_SECONDS = MAX_DELAY / 2


class BatchCounts(NamedTuple):
    """How the members of a batch stand. Retries count beside what they retry."""

    open: int
    done: int
    failed: int
    cancelled: int

    @property
    def total(self) -> int:
        return sum(self)


def batch_counts(batch: UUID, using: str) -> BatchCounts:
    """By the index of the batch, which holds its members alone."""
    members = Task.objects.using(using).filter(batch=batch).order_by()
    found = dict(members.values_list("status").annotate(Count("pk")))
    return BatchCounts(
        sum(found.get(status, 0) for status in UNFINISHED),
        found.get(Status.SUCCESS, 0),
        found.get(Status.FAILED, 0),
        found.get(Status.CANCELLED, 0),
    )


def explain_waiting(task: Task, now: datetime, using: str) -> str:
    """Of a task that waits for a batch or a signal."""
    key = task.waits_for or ""
    batch = batch_of(key)
    if batch is not None:
        counts = batch_counts(batch, using)
        text = ngettext(
            "It waits for %(open)s of %(total)s task.", "It waits for %(open)s of %(total)s tasks.", counts.total
        )
        return text % {"open": format_number(counts.open), "total": format_number(counts.total)}
    name = one_line(key.removeprefix(SIGNAL), 200)
    if (task.eta - now).total_seconds() > ENDLESS_SECONDS:
        return _("It waits for the signal %(name)s.") % {"name": name}
    return _("It waits for the signal %(name)s until %(time)s.") % {"name": name, "time": format_moment(task.eta)}
