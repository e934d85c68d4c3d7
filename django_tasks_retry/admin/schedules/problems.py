"""Schedules that the overview warns of: due for a while, and no worker has enqueued them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from django.db.models import Q
from django.utils.translation import gettext as _

from ...display.formatting import format_relative, one_line
from ...display.scope import Scope
from ...models import Schedule
from ...taskqueue.schedules.runs import has_unfinished_run
from ..pages.queue_summary import Problem

A_WHILE = timedelta(minutes=1)
MOST = 5


def schedule_problems(scope: Scope) -> Iterator[Problem]:
    """What waits behind its previous run waits by choice."""
    active = Schedule.objects.using(scope.using).active().filter(backend=scope.backend)
    overdue = active.filter(next_at__lt=scope.now - A_WHILE).exclude(Q(overlap="queue") & Q(has_unfinished_run()))
    for schedule in overdue.order_by("next_at")[:MOST]:
        values = {
            "name": one_line(schedule.name, 128),
            "ago": format_relative(schedule.next_at or scope.now, scope.now),
        }
        text = _("Schedule %(name)s was due %(ago)s, and no worker has enqueued it. Its page says why.") % values
        yield Problem(text, page="schedule")
