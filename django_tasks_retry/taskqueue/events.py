"""What is written beside a move, in its transaction: events, and the result of a finished task."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from ..models import Task, TaskEvent, TaskResult
from ..rules.payload import storable
from ..rules.status import Status
from ..rules.transitions import EventKind, Move


class Attempted(Protocol):
    @property
    def id(self) -> UUID: ...
    @property
    def attempts(self) -> int: ...


def event(of: Attempted, kind: EventKind, actor: str, ts: datetime, data: dict[str, Any] | None = None) -> TaskEvent:
    return TaskEvent(task_id=of.id, kind=kind.value, ts=ts, attempt=of.attempts, actor=actor, data=data or {})


def events_of(move: Move, of: Attempted, actor: str, ts: datetime, *data: dict[str, Any]) -> list[TaskEvent]:
    """The events of a move, in the order of the table; `data` where they carry any."""
    return [event(of, kind, actor, ts, each) for kind, each in zip(move.events, data or ({},), strict=True)]


def write_events(events: Sequence[TaskEvent], using: str) -> None:
    TaskEvent.objects.using(using).bulk_create(events)


def result_of(task: Task, status: Status, ts: datetime, *, result: str | None = None, error: Any = None) -> TaskResult:
    return TaskResult(
        task_id=task.pk,
        status=status.value,
        result=None if result is None else json.loads(result),
        error=error,
        attempts=task.attempts,
        last_attempt_at=task.last_attempt_at,
        finished_at=ts,
    )


def cancellation(actor: str, reason: str) -> dict[str, str]:
    """What the result of a cancelled task tells."""
    return {"message": reason or "cancelled", "code": "CANCELLED", "actor": actor}


def actor_of(by: Any) -> str:
    """A user becomes `user:<pk>`; code gives itself a name."""
    if by is None:
        return "code"
    pk = getattr(by, "pk", None)
    return storable(f"user:{pk}" if pk is not None else str(by))[:160]
