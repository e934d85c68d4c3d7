"""Control of lanes: pause, resume, and limits that a person decided. Each decision is kept as an event.

A label names a lane (`tenant-7`), or a whole queue or function (`queue:crm`, `function:shop.tasks.pay`).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import transaction

from ...clock import now
from ...errors import InvalidLane
from ...models import LaneState, OperatorEvent
from ...models.lanes import FUNCTION, LANE, QUEUE, split
from ...rules.lanes.limits import Limit, make_limit
from ...rules.lanes.templates import checked_name
from ...rules.payload import storable
from ..database import database
from ..events import actor_of
from ..operator.control import REASON_LENGTH
from ..operator.summaries import depths
from ..producer.wakeup import announce_work
from .limits import decided, limit_of
from .states import make

SUBJECT_LENGTH = 128


def pause_lane(label: str, *, by: Any = None, reason: str = "", backend: str = "default") -> None:
    """Stop all claims from a lane or a function at once. Running tasks go on."""
    if split(label)[0] == QUEUE:
        raise InvalidLane(f"{label!r}: a queue is paused by its own name, with pause().")
    using = database(backend)
    with transaction.atomic(using=using):
        state = locked(label, using)
        set_paused(state, actor_of(by), shortened(reason), now(using))
        tell("lane.paused", state, actor_of(by), reason, using)


def set_paused(state: LaneState, actor: str, reason: str, moment: datetime, probe_at: datetime | None = None) -> None:
    state.paused_at, state.paused_by, state.reason = moment, actor, reason
    state.probe_at, state.probing_since, state.probe_from = probe_at, None, None
    state.save()


def resume_lane(label: str, *, by: Any = None, reason: str = "", backend: str = "default") -> bool:
    """Let a paused lane or function be claimed from again. False where it was not paused."""
    using = database(backend)
    with transaction.atomic(using=using):
        state = LaneState.objects.using(using).among([label]).select_for_update().first()
        if state is None or (state.paused_at is None and state.probing_since is None):
            return False
        state.paused_at, state.paused_by, state.reason = None, "", ""
        state.probe_at = state.probing_since = state.probe_from = None
        state.counts_from = now(using)  # else the breaker would trip at once, for what is over
        state.save()
        tell("lane.resumed", state, actor_of(by), reason, using)
        announce_work({depth.queue for depth in depths(using)}, using)
    return True


def limit_lane(
    label: str,
    *,
    running: int | None = None,
    starts: int | None = None,
    per: float | None = None,
    weight: float | None = None,
    by: Any = None,
    reason: str = "",
    backend: str = "default",
) -> Limit:
    """Decide the limits of a lane, queue or function: they win over code and settings. None leaves those to them."""
    using, decisions = database(backend), {"running": running, "starts": starts, "per": per, "weight": weight}
    make_limit(running=running, starts=starts, per=per, weight=1.0 if weight is None else weight)
    if weight is not None and split(label)[0] != LANE:
        raise InvalidLane(f"{label!r}: a weight is for lanes, which share workers.")
    with transaction.atomic(using=using):
        state = locked(label, using)
        for name, value in decisions.items():
            setattr(state, name, value)
        state.decided_by, state.decided_for = actor_of(by), shortened(reason)
        state.save()
        given = {name: value for name, value in decisions.items() if value is not None}
        tell("lane.limited", state, actor_of(by), reason, using, given)
        announce_work({depth.queue for depth in depths(using)}, using)
    return decided(state, limit_of(label, backend))


def locked(label: str, using: str) -> LaneState:
    """The row of this lane, made where there is none."""
    kind, name = split(label)
    if kind == LANE:
        checked_name(name)
    elif not name or (kind == FUNCTION and "." not in name):
        raise InvalidLane(f"{label!r}: give the path of the function, such as function:shop.tasks.pay.")
    make([label], using)
    state: LaneState = LaneState.objects.using(using).select_for_update().get(kind=kind, name=name)
    return state


def shortened(reason: str) -> str:
    return storable(reason)[:REASON_LENGTH]


def tell(kind: str, state: LaneState, actor: str, reason: str, using: str, data: dict[str, Any] | None = None) -> None:
    """`data` always names the lane in full."""
    OperatorEvent.objects.using(using).create(
        kind=kind,
        subject=state.label[:SUBJECT_LENGTH],
        ts=now(using),
        actor=actor,
        reason=shortened(reason),
        data={"lane": state.label, **(data or {})},
    )
