"""Explains what holds a due task back: a pause, a full or throttled lane, or a strict order."""

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ..models import FlowLimit, Queue, Task
from ..taskqueue import read_rows, statistics
from ..taskqueue.claim import awaited_by, begun_in
from ..taskqueue.control import pause_of
from ..taskqueue.lanes import LaneSummary, labels_of, running_in, summarize_limits
from .events import describe_pauses
from .formatting import NO_VALUE, format_capped, format_duration, one_line
from .scope import Scope


def explain_pause(task: Task, scope: Scope, *, can_see_payload: bool) -> str:
    """Return nothing unless its queue, lane or function is paused."""
    if (row := pause_of(task, scope.using)) is None:
        return ""
    pause, name = describe_pauses([row], can_see_payload=can_see_payload)[row.name], one_line(row.name, 100)
    if isinstance(row, Queue):
        text = _(
            "Queue %(queue)s was paused by %(by)s at %(time)s (%(reason)s). The task waits until the queue is resumed."
        )
        return text % {"queue": name, **pause.values}
    text = _("Lane %(lane)s was paused by %(by)s at %(time)s (%(reason)s). The task waits.")
    values = {"lane": name, **pause.values}
    if row.probe_at is not None:
        wait = max(0.0, (row.probe_at - scope.now).total_seconds())
        values |= {"lane": one_line(row.label, 100), "next": format_duration(wait)}
        text = _("The circuit breaker paused %(lane)s at %(time)s (%(reason)s). It lets one task try in %(next)s.")
    elif row.kind == "function":
        text = _("Function %(lane)s was paused by %(by)s at %(time)s (%(reason)s). The task waits.")
    return text % values


def explain_limit(task: Task, scope: Scope) -> str:
    """Explain the limit that holds the task back; empty if none does."""
    states = read_rows(FlowLimit.objects.using(scope.using).among(labels_of(task)))
    for summary in summarize_limits(states, scope.backend):
        values = {"lane": one_line(summary.label, 100)}
        if summary.trouble:
            text = _("The limits of %(lane)s cannot be read, so none of its tasks starts. Set or clear its limits.")
            return text % values
        if summary.is_full:
            return full_sentence(task, summary, scope)
        if summary.is_throttled:
            text = _(
                "Lane %(lane)s has reached its rate limit (%(count)s starts in %(window)s). "
                "The next task can start in %(time)s."
            )
            values |= {"window": format_duration(summary.limit.per), "time": format_duration(summary.opens_in)}
            return text % {**values, "count": summary.started}
        if task.lane == summary.label and summary.limit.order == "strict":
            return order_sentence(task, scope)
    return ""


def full_sentence(task: Task, summary: LaneSummary, scope: Scope) -> str:
    values = {"lane": one_line(summary.label, 100), "running": summary.running, "most": summary.limit.most_running}
    if summary.state.probing_since:
        return _("The circuit breaker lets %(lane)s try one task at a time until one succeeds.") % values
    if summary.label != task.lane:
        return _("%(lane)s runs %(running)s of %(most)s.") % values
    values["tasks"] = ", ".join(map(str, running_in(task.lane, scope.using))) or NO_VALUE
    before = statistics.ahead_of(task, scope.using)
    text = ngettext("%(count)s waits before it.", "%(count)s wait before it.", before)
    full = _("Lane %(lane)s runs %(running)s of %(most)s: %(tasks)s.") % values
    return f"{full} {text % {'count': format_capped(before)}}"


def order_sentence(task: Task, scope: Scope) -> str:
    begun = begun_in(task.lane, scope.using)
    if begun is None or begun.pk == task.pk or (task.batch and awaited_by(begun) == task.batch):
        return ""
    values = {"lane": one_line(task.lane, 100), "task": begun.pk}
    return _("Lane %(lane)s runs in strict order: %(task)s started earlier and has not finished.") % values
