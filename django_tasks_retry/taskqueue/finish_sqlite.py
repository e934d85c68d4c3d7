"""Finish on SQLite: the rules of finish.sql under the write lock, which lets one writer in at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from django.db import transaction
from django.db.models import F

from ..clock import frozen, now
from ..models import Task, TaskEvent, TaskResult
from ..rules.repeat import next_slot
from ..rules.status import Status
from ..rules.transitions import COMPLETE, EventKind
from .events import event, result_of, write_events
from .insert import insert, same_call
from .report import Report

Moved: TypeAlias = tuple[datetime, datetime]
"""The task's eta after the move, and when it was made."""

DATED = {EventKind.REQUEUED, EventKind.RELEASED}
"""Events that tell when the task is due again."""


def record_on_sqlite(reports: Sequence[Report], using: str) -> dict[int, Moved]:
    """What was written, by the place of the accepted reports."""
    with transaction.atomic(using=using), frozen():
        moment = now(using)
        tasks = Task.objects.using(using).in_bulk([report.lease.id for report in reports])
        moves = accepted_moves(reports, tasks, moment)
        # The result first: the guard wants to see it when the task finishes.
        TaskResult.objects.using(using).bulk_create([move.result for move in moves if move.report.is_final])
        complete_together([move for move in moves if move.is_completion], moment, using)
        for move in moves:
            if not move.is_completion:
                Task.objects.using(using).filter(pk=move.task.pk).update(**move.changes)
        write_events([told for move in moves for told in move.events], using)
        for move in moves:
            if move.report.next_id:
                insert([move.next_occurrence])
    return {move.place: (move.eta, moment) for move in moves}


def accepted_moves(reports: Sequence[Report], tasks: Mapping[Any, Task], moment: datetime) -> list[SqliteMove]:
    """A lease is good for one report: the first that matches it takes the task away from the others."""
    free, moves = dict(tasks), []
    for place, report in enumerate(reports):
        task, lease = free.get(report.lease.id), report.lease
        if task and (task.locked_by, task.attempts) == (lease.locked_by, lease.attempts) and alive(task, moment):
            moves.append(SqliteMove(place, report, free.pop(task.pk), moment))
    return moves


def alive(task: Task, moment: datetime) -> bool:
    return task.lock_expires_at is not None and task.lock_expires_at > moment


def complete_together(moves: Sequence[SqliteMove], moment: datetime, using: str) -> None:
    """The usual end, in one statement for all who state the same lease; the guard compares it with each row."""
    for signature in {move.report.moved_by for move in moves}:
        ids = [move.task.pk for move in moves if move.report.moved_by == signature]
        Task.objects.using(using).filter(pk__in=ids).update(
            status=Status.SUCCESS,
            moved_by=signature,
            locked_by=None,
            lock_expires_at=None,
            updated_at=moment,
            finished_at=moment,
        )


class SqliteMove:
    """One accepted report and everything it writes."""

    def __init__(self, place: int, report: Report, task: Task, moment: datetime) -> None:
        self.place, self.report, self.task, self.moment = place, report, task, moment
        self.eta = task.eta if report.is_final else moment + timedelta(seconds=report.delay)

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
        return {
            "status": self.report.move.target,
            "eta": self.eta,
            "refunds": F("refunds") + self.report.move.refunds,
            "locked_by": None,
            "lock_expires_at": None,
            "moved_by": self.report.moved_by,
            "last_error": self.error or self.task.last_error,
            "fingerprint": self.report.fingerprint or self.task.fingerprint,
            "updated_at": self.moment,
            "finished_at": self.moment if self.report.is_final else None,
        }

    @property
    def events(self) -> list[TaskEvent]:
        return [
            event(self.report.lease, kind, self.report.actor, self.moment, data | self.dates(kind))
            for kind, data in self.report.events
        ]

    def dates(self, kind: EventKind) -> dict[str, str]:
        return {"eta": self.eta.isoformat()} if kind in DATED else {}

    @property
    def next_occurrence(self) -> Task:
        slot = next_slot(self.task.slot or self.task.eta, self.task.interval, self.moment)
        return same_call(self.task, id=self.report.next_id, eta=slot, slot=slot)
