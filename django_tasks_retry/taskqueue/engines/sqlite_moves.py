"""What a claim and an accepted report write on SQLite: the rules of claim.sql and finish.sql as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import F

from ...models import Task, TaskEvent, TaskResult
from ...rules.repeat import next_slot
from ...rules.transitions import CLAIM, COMPLETE, EventKind
from ..consumer.report import Report
from ..events import event, result_of
from ..lease import COLUMNS
from ..producer.new_tasks import same_call

DATED = {EventKind.REQUEUED, EventKind.RELEASED}
"""Events that tell when the task is due again."""


class Held(NamedTuple):
    """What a report is checked against. Claims write it, so it can be read whatever else the row holds."""

    id: UUID
    locked_by: str | None
    attempts: int
    lock_expires_at: datetime | None
    last_attempt_at: datetime | None


def accept(reports: Sequence[Report], tasks: Mapping[UUID, Held], moment: datetime) -> list[AcceptedReport]:
    """A lease is good for one report: the first that matches it takes the task away from the others."""
    free, accepted = dict(tasks), []
    for place, report in enumerate(reports):
        task, lease = free.get(report.lease.id), report.lease
        if task and (task.locked_by, task.attempts) == (lease.locked_by, lease.attempts) and alive(task, moment):
            accepted.append(AcceptedReport(place, report, free.pop(task.id), moment))
    return accepted


def alive(task: Held, moment: datetime) -> bool:
    return task.lock_expires_at is not None and task.lock_expires_at > moment


class AcceptedReport:
    """One accepted report and everything it writes."""

    def __init__(self, place: int, report: Report, task: Held, moment: datetime) -> None:
        self.place, self.report, self.task, self.moment = place, report, task, moment
        self.eta = report.lease.eta if report.delay is None else moment + timedelta(seconds=report.delay)

    @property
    def is_completion(self) -> bool:
        return self.report.move is COMPLETE

    @property
    def error(self) -> dict[str, Any] | None:
        next_eta = None if self.report.is_final else self.eta.isoformat()
        return self.report.error and {**self.report.error, "ts": self.moment.isoformat(), "next_eta": next_eta}

    @property
    def result(self) -> TaskResult:
        return result_of(self.task, self.report.move.target, self.moment, result=self.report.result, error=self.error)

    @property
    def changes(self) -> dict[str, Any]:
        changes = {
            "status": self.report.move.target,
            "refunds": F("refunds") + self.report.move.refunds,
            "locked_by": None,
            "lock_expires_at": None,
            "moved_by": self.report.moved_by,
            "waits_for": self.report.waits_for,
            "updated_at": self.moment,
        }
        changes |= {"finished_at": self.moment} if self.report.is_final else {"eta": self.eta}
        if self.report.error is not None:
            changes |= {"last_error": self.error, "fingerprint": self.report.fingerprint}
        if not self.report.is_final and not self.report.move.refunds:
            changes["crashes"] = None
        return changes

    @property
    def events(self) -> list[TaskEvent]:
        return [
            event(self.report.lease, kind, self.report.actor, self.moment, data | self.dates(kind))
            for kind, data in self.report.events
        ]

    def dates(self, kind: EventKind) -> dict[str, str]:
        return {"eta": self.eta.isoformat()} if kind in DATED else {}

    def next_occurrence(self, task: Task) -> Task:
        slot = next_slot(task.slot or task.eta, task.interval, self.moment)
        return same_call(task, id=self.report.next_id, eta=slot, slot=slot)


def claimed(row: Sequence[Any], worker_id: str, expires: datetime, moment: datetime) -> list[Any]:
    """A row that was read before it was claimed, as it is afterwards."""
    values = dict(zip(COLUMNS, row, strict=True))
    values |= {
        "attempts": values["attempts"] + CLAIM.attempts,
        "locked_by": worker_id,
        "lock_expires_at": expires,
        "started_at": values["started_at"] or moment,
        "last_attempt_at": moment,
    }
    return list(values.values())
