"""Explains what holds a task back in its lane, queue or function: a pause, a limit, a rate, an order."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ...models import LaneState, Task
from ...taskqueue.lanes.order import awaited_by, begun_in
from ...taskqueue.lanes.summaries import LaneSummary, running_in, summarize
from ...taskqueue.operator import summaries
from ..actors import actor_names
from ..formatting import NO_VALUE, format_capped, format_duration, format_moment, one_line
from ..redact import visible_reason
from ..scope import Scope


def labels_of(task: Task) -> list[str]:
    own = [task.lane] if task.lane else []
    return [*own, f"queue:{task.queue}", f"function:{task.func_path}"]


def explain_pause(task: Task, scope: Scope, *, can_see_payload: bool) -> str:
    """Nothing where neither its lane nor its function is paused."""
    paused = LaneState.objects.using(scope.using).among(labels_of(task)).filter(paused_at__isnull=False).first()
    if paused is None:
        return ""
    if paused.probe_at is not None:
        return tripped_sentence(paused, scope, can_see_payload=can_see_payload)
    values = {
        "lane": one_line(paused.name, 100),
        "by": actor_names({paused.paused_by})[paused.paused_by],
        "time": format_moment(paused.paused_at),
        "reason": visible_reason(paused.reason, can_see_payload=can_see_payload) or NO_VALUE,
    }
    if paused.kind == "function":
        return _("Function %(lane)s was paused by %(by)s at %(time)s (%(reason)s). The task waits.") % values
    return _("Lane %(lane)s was paused by %(by)s at %(time)s (%(reason)s). The task waits.") % values


def tripped_sentence(paused: LaneState, scope: Scope, *, can_see_payload: bool) -> str:
    values = {
        "lane": one_line(paused.label, 100),
        "time": format_moment(paused.paused_at),
        "reason": visible_reason(paused.reason, can_see_payload=can_see_payload) or NO_VALUE,
        "next": format_duration(max(0.0, (paused.probe_at - scope.now).total_seconds())) if paused.probe_at else "",
    }
    return _("The circuit breaker paused %(lane)s at %(time)s (%(reason)s). It lets one task try in %(next)s.") % values


def explain_limit(task: Task, scope: Scope) -> str:
    """Nothing where there is room for it, as far as limits go."""
    states = list(LaneState.objects.using(scope.using).among(labels_of(task)))
    for summary in summarize(states, scope.backend):
        if summary.is_full:
            return full_sentence(task, summary, scope)
        if summary.is_throttled:
            return rate_sentence(summary)
        if task.lane == summary.label and summary.limit.order == "strict":
            return order_sentence(task, scope)
    return ""


def full_sentence(task: Task, summary: LaneSummary, scope: Scope) -> str:
    values = {
        "lane": one_line(summary.label, 100),
        "running": summary.running,
        "most": summary.limit.most_running,
    }
    if summary.state.probing_since:
        return _("The circuit breaker lets %(lane)s try one task at a time until one succeeds.") % values
    if summary.label != task.lane:
        return _("%(lane)s runs %(running)s of %(most)s.") % values
    full = _("Lane %(lane)s runs %(running)s of %(most)s: %(tasks)s.") % (
        values | {"tasks": names_of(running_in(task.lane, scope.using))}
    )
    before = summaries.ahead_of(task, scope.using)
    text = ngettext("%(count)s waits before it.", "%(count)s wait before it.", before)
    return f"{full} {text % {'count': format_capped(before)}}"


def names_of(tasks: Sequence[UUID]) -> str:
    return ", ".join(map(str, tasks)) or NO_VALUE


def rate_sentence(summary: LaneSummary) -> str:
    values = {
        "lane": one_line(summary.label, 100),
        "count": summary.started,
        "window": format_duration(summary.limit.per),
        "time": format_duration(summary.opens_in),
    }
    return _("Of lane %(lane)s %(count)s started in the last %(window)s; the next may start in %(time)s.") % values


def order_sentence(task: Task, scope: Scope) -> str:
    begun = begun_in(task.lane, scope.using)
    if begun is None or begun.pk == task.pk or (task.batch and awaited_by(begun) == task.batch):
        return ""
    values = {"lane": one_line(task.lane, 100), "task": begun.pk}
    return _("Lane %(lane)s keeps its order: %(task)s was begun before it and has not finished.") % values
