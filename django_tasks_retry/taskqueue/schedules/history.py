"""What was decided about schedules, and why: events of their own, kept apart from those of tasks."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from ...clock import Now, now
from ...models import OperatorEvent
from ...rules.payload import storable
from ..database import database

REASON_LENGTH = 200
BY_RULE = ("schedule.skipped", "schedule.missed")
KEEP = timedelta(days=90)


def decision(
    kind: str, name: str, *, by: str, reason: str, moment: datetime, data: dict[str, Any] | None = None
) -> OperatorEvent:
    why = storable(reason)[:REASON_LENGTH]
    return OperatorEvent(kind=kind, subject=name, ts=moment, actor=by, reason=why, data=data)


def record(kind: str, name: str, *, by: str, reason: str, using: str, data: dict[str, Any] | None = None) -> None:
    decision(kind, name, by=by, reason=reason, moment=now(using), data=data).save(using=using)


def forget_skipped(*, backend: str = "default") -> int:
    """Delete what the queue decided by rule long ago. What people decided is kept."""
    past = OperatorEvent.objects.using(database(backend)).filter(kind__in=BY_RULE, ts__lt=Now() - KEEP)
    return past._raw_delete(past.db)
