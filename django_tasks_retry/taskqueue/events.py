"""Records written with a move, in its transaction: events, the result of a finished task, and the operator log."""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar
from uuid import UUID

from django.db.models import Model
from django.db.models.base import ModelState

from ..clock import Now, now
from ..models import OperatorEvent, Task, TaskEvent, TaskResult
from ..rules.payload import storable
from ..rules.redact import redact_text
from ..rules.status import Status
from ..rules.transitions import RESCHEDULE, EventKind, Move
from .database import database

RESCHEDULED = ("pk", "attempts", "queue", "priority", "eta", "updated_at")
"""Columns that the event of a reschedule needs. Values of other columns that cannot be decoded do not matter to it."""


class Attempted(Protocol):
    @property
    def id(self) -> UUID: ...
    @property
    def attempts(self) -> int: ...


def event(of: Attempted, kind: EventKind, actor: str, ts: datetime, data: dict[str, Any] | None = None) -> TaskEvent:
    columns = {"task_id": of.id, "kind": kind.value, "ts": ts, "attempt": of.attempts, "actor": actor}
    return made(TaskEvent, {"id": None, **columns, "data": data or {}})


def events_of(move: Move, of: Attempted, actor: str, ts: datetime, *data: dict[str, Any]) -> list[TaskEvent]:
    """The events of a move, in the order of the table, with their `data`."""
    return [event(of, kind, actor, ts, each) for kind, each in zip(move.events, data or ({},), strict=True)]


def write_rescheduled(tasks: Iterable[Task], actor: str, reason: str, using: str) -> None:
    """Write the events of tasks that were given another time or place."""
    events = []
    for task in tasks:
        data = {"eta": task.eta.isoformat(), "queue": task.queue, "priority": task.priority, "reason": reason}
        events += events_of(RESCHEDULE, task, actor, task.updated_at, data)
    write_events(events, using)


def write_events(events: Sequence[TaskEvent], using: str) -> None:
    TaskEvent.objects.using(using).bulk_create(events)


class LastAttempted(Attempted, Protocol):
    @property
    def last_attempt_at(self) -> datetime | None: ...


def result_of(
    task: LastAttempted, status: Status, ts: datetime, *, result: str | None = None, error: Any = None
) -> TaskResult:
    columns = {
        "task_id": task.id,
        "status": status.value,
        "result": None if result is None else json.loads(result),
        "error": error,
        "attempts": task.attempts,
        "last_attempt_at": task.last_attempt_at,
        "finished_at": ts,
    }
    return made(TaskResult, columns)


Row = TypeVar("Row", bound=Model)


def made(model: type[Row], columns: dict[str, Any]) -> Row:
    """A new row with all its columns given as a whole: field by field takes Django four times as long."""
    row = model.__new__(model)
    row.__dict__ = {**columns, "_state": ModelState()}
    return row


def cancellation(actor: str, reason: str) -> dict[str, str]:
    return {"message": reason or "cancelled", "code": "CANCELLED", "actor": actor}


def actor_of(by: Any) -> str:
    """A user becomes `user:<pk>`; code gives itself a name."""
    if by is None:
        return "code"
    pk = getattr(by, "pk", None)
    return storable(f"user:{pk}" if pk is not None else str(by))[:160]


# The operator log: decisions of people, and of rules in their place, each with its author and reason.

REASON_LENGTH = 200
SUBJECT_LENGTH = 128
ASKED = "api.asked"  # a question by a token or an agent
PROPOSED = "proposal.made"  # what an agent asks a person to do
BY_RULE = (ASKED, PROPOSED, "schedule.skipped", "schedule.missed", "alert.sent")
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
    """Delete old decisions of rules, and questions and proposals of agents. Decisions of people are kept."""
    past = OperatorEvent.objects.using(database(backend)).filter(kind__in=BY_RULE, ts__lt=Now() - KEEP)
    return past._raw_delete(past.db)
