"""Lanes as the console shows them."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _

from ...display.actors import actor_names
from ...display.formatting import format_capped, format_duration, one_line
from ...display.redact import visible_reason
from ...models.lanes import FUNCTION, QUEUE
from ...taskqueue.lanes.summaries import LaneSummary


def row_of(lane: LaneSummary, *, can_see_payload: bool) -> dict[str, Any]:
    state, limit = lane.state, lane.limit
    names = actor_names({state.paused_by, state.decided_by})
    return {
        "label": lane.label,
        "name": one_line(lane.label, 100),
        "search": search_of(lane),
        "state": state_name(lane),
        "badge": badge_of(lane),
        "running": str(lane.running) if limit.most_running is None else f"{lane.running} / {limit.most_running}",
        "started": "" if limit.starts is None else f"{lane.started} / {limit.starts}",
        "window": "" if limit.starts is None else format_duration(limit.per),
        "waiting": format_capped(lane.waiting),
        "is_paused": lane.is_paused,
        "is_queue": state.kind == QUEUE,
        "paused_by": names[state.paused_by] if lane.is_paused else "",
        "paused_at": state.paused_at,
        "reason": visible_reason(state.reason, can_see_payload=can_see_payload),
        "decided_by": names[state.decided_by] if state.is_decided else "",
        "decided_for": visible_reason(state.decided_for, can_see_payload=can_see_payload) if state.is_decided else "",
    }


def search_of(lane: LaneSummary) -> str:
    """What to type into the search of tasks."""
    kind = {QUEUE: "queue", FUNCTION: "task"}.get(lane.state.kind, "lane")
    return f"{kind}:{lane.state.name}"


def state_name(lane: LaneSummary) -> str:
    if lane.is_paused:
        return _("tripped") if lane.state.probe_at else _("paused")
    if lane.state.probing_since:
        return _("probing")
    if lane.is_throttled:
        return _("opens in %(time)s") % {"time": format_duration(lane.opens_in)}
    return _("full") if lane.is_full else _("open")


def badge_of(lane: LaneSummary) -> str:
    if lane.is_paused:
        return "bad"
    return "warn" if lane.is_full or lane.is_throttled or lane.state.probing_since else "good"
