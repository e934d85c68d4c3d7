"""The operator log: decisions of people, and of rules in their place, each with its author and reason."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from ...clock import Now, now
from ...models import OperatorEvent
from ...rules.payload import storable
from ...rules.redact import redact_text
from ..database import database

REASON_LENGTH = 200
SUBJECT_LENGTH = 128
BY_RULE = ("schedule.skipped", "schedule.missed")
KEEP = timedelta(days=90)


def shortened(reason: str) -> str:
    return storable(redact_text(reason))[:REASON_LENGTH]


def operator_event(
    kind: str, subject: str, actor: str, reason: str, moment: datetime, data: dict[str, Any] | None = None
) -> OperatorEvent:
    subject, reason = subject[:SUBJECT_LENGTH], shortened(reason)
    return OperatorEvent(kind=kind, subject=subject, ts=moment, actor=actor, reason=reason, data=data)


def write_operator_event(
    kind: str, subject: str, actor: str, reason: str, using: str, data: dict[str, Any] | None = None
) -> None:
    operator_event(kind, subject, actor, reason, now(using), data).save(using=using)


def forget_skipped(*, backend: str = "default") -> int:
    """Delete old decisions that the queue made by rule. Decisions of people are kept."""
    past = OperatorEvent.objects.using(database(backend)).filter(kind__in=BY_RULE, ts__lt=Now() - KEEP)
    return past._raw_delete(past.db)
