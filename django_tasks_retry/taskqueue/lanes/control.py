"""Limits of lanes that a person decided. Each decision is kept as an event.

A label names a lane (`tenant-7`), or a whole queue or function (`queue:crm`, `function:shop.tasks.pay`).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import transaction

from ...clock import now
from ...errors import InvalidLane
from ...models import FlowLimit
from ...models.limits import FUNCTION, LANE, split
from ...rules.lanes import window
from ...rules.lanes.limits import MOST, Limit, Rate
from ...rules.lanes.templates import checked_lane
from ..database import database
from ..enqueue.notify import notify_work_on_commit
from ..events import actor_of, shortened, write_operator_event
from ..statistics.summaries import depths
from .limits import create, decided, limit_of


def limit_lane(
    label: str,
    *,
    concurrency: int | None = None,
    rate: Rate | None = None,
    weight: float | None = None,
    by: Any = None,
    reason: str = "",
    backend: str = "default",
) -> Limit:
    """Decide the limits of a lane, queue or function: they win over code and settings. None leaves those to them."""
    using, limit = (
        database(backend),
        Limit(concurrency=concurrency, rate=rate, weight=1.0 if weight is None else weight),
    )
    if weight is not None and split(label)[0] != LANE:
        raise InvalidLane(f"{label!r}: a weight is for lanes, which share workers.")
    with transaction.atomic(using=using):
        state = locked_state(label, using)
        state.running, state.weight = concurrency, weight
        state.starts, state.per = limit.starts, limit.per if limit.rate else None
        state.decided_by, state.decided_for = actor_of(by), shortened(reason)
        forget_unreadable(state, now(using))
        state.save(update_fields=[*FlowLimit.DECISIONS, "decided_by", "decided_for", "recent"])
        decisions = {"concurrency": concurrency, "rate": limit.rate, "weight": weight}
        data = {"lane": state.label, **{name: value for name, value in decisions.items() if value is not None}}
        write_operator_event("lane.limited", state.label, actor_of(by), reason, using, data)
        notify_work_on_commit({depth.queue for depth in depths(using)}, using)
    return decided(state, limit_of(label, backend))


def forget_unreadable(state: FlowLimit, moment: datetime) -> None:
    """Replace starts that cannot be read by as many as can be: a rate is kept, and has room after one window."""
    try:
        window.check_buckets(state.recent)
    except InvalidLane:
        state.recent = [(moment.timestamp(), MOST)]


def locked_state(label: str, using: str) -> FlowLimit:
    """Lock the row of a lane, queue or function. Make it if there is none."""
    kind, name = split(label)
    if kind == LANE:
        checked_lane(name)
    elif not name or (kind == FUNCTION and "." not in name):
        raise InvalidLane(f"{label!r}: give the path of the function, such as function:shop.tasks.pay.")
    create([label], using)
    state: FlowLimit = FlowLimit.objects.using(using).select_for_update().get(kind=kind, name=name)
    return state
