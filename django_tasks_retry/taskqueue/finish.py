"""Finish: what workers report about their leases, many at once, each under its fence.

A report is accepted only while its lease holds: same task, same worker, same attempt, not expired. Whatever arrives
late changes nothing, and the answer says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from ..errors import InvalidPayload, LeaseLost, LostReason
from ..models import Task
from ..rules.failure import Failure
from ..rules.status import Status
from .database import as_text, database, fetch, is_postgresql, statement
from .finish_sqlite import Moved, record_on_sqlite
from .lease import Fence, Lease
from .report import Completed, Failed, Outcome, Released, Report, report_of


class Receipt(NamedTuple):
    """The queue's answer to one report."""

    lease: Lease
    status: Status | None
    eta: datetime | None = None
    ts: datetime | None = None
    error: dict[str, Any] | None = None
    lost: LostReason | None = None
    cause: str = ""
    is_busy: bool = False

    @property
    def accepted(self) -> bool:
        return self.lost is None and not self.is_busy

    @property
    def final_status(self) -> Status | None:
        """How the task ended, where it ended with this report."""
        return self.status if self.accepted and self.status is not Status.PENDING else None


def finish(outcomes: Sequence[Outcome]) -> list[Receipt]:
    """Write the outcomes, in one statement on PostgreSQL, and answer each."""
    if not outcomes:
        return []
    # In the order of their ids, so that two that write about the same tasks cannot deadlock.
    order = sorted(range(len(outcomes)), key=lambda n: outcomes[n].lease.id.int)
    receipts = dict(zip(order, answers([report_of(outcomes[n]) for n in order]), strict=True))
    return [receipts[n] for n in range(len(outcomes))]


def record(reports: Sequence[Report]) -> list[Receipt]:
    """Write reports that were made before, and answer each."""
    order = sorted(range(len(reports)), key=lambda n: reports[n].lease.id.int)
    receipts = dict(zip(order, answers([reports[n] for n in order]), strict=True)) if reports else {}
    return [receipts[n] for n in range(len(reports))]


def answers(reports: Sequence[Report]) -> list[Receipt]:
    using = database(reports[0].lease.backend)
    record = record_on_postgresql if is_postgresql(using) else record_on_sqlite
    moved = record(reports, using)
    lost = why_lost([report.lease for n, report in enumerate(reports) if n not in moved], using)
    return [
        Receipt(report.lease, report.move.target, *moved[n], error=report.error)
        if n in moved
        else Receipt(report.lease, None, lost=lost[report.lease.fence])
        for n, report in enumerate(reports)
    ]


def complete_task(lease: Lease, result: Any = None) -> Receipt:
    return accepted(finish([Completed(lease, result)])[0])


def fail_task(lease: Lease, error: BaseException | Failure) -> Receipt:
    """Record the failure; the receipt tells whether and when the task is tried again."""
    return accepted(finish([Failed(lease, error)])[0])


def complete_within(lease: Lease, result: Any) -> Receipt:
    """Complete inside the caller's transaction, or raise so that it rolls back: nothing else is recorded."""
    report = report_of(Completed(lease, result))
    if report.error is not None:
        raise InvalidPayload(report.error["message"])
    return accepted(answers([report])[0])


def release_task(lease: Lease, reason: str, delay: float = 0.0) -> Receipt:
    return accepted(finish([Released(lease, reason, delay)])[0])


def accepted(receipt: Receipt) -> Receipt:
    if receipt.lost is not None:
        raise LeaseLost(receipt.lost, receipt.lease.id)
    return receipt


def record_on_postgresql(reports: Sequence[Report], using: str) -> dict[int, Moved]:
    """What was written, by the place of the accepted reports."""
    told = [
        {"of": n, "kind": kind, "actor": report.actor, "data": data}
        for n, report in enumerate(reports)
        for kind, data in report.events
    ]
    parameters = {"reports": as_text([row_of(report) for report in reports]), "told": as_text(told)}
    sql = statement("finish") if any(report.next_id for report in reports) else without_repeating(statement("finish"))
    return {n: (eta, ts) for n, eta, ts in fetch(sql, parameters, using)}


@cache
def without_repeating(sql: str) -> str:
    return sql.partition("-- Repeating tasks only")[0] + sql.partition("-- End of repeating tasks.\n")[2]


def row_of(report: Report) -> dict[str, Any]:
    return {
        "id": report.lease.id,
        "worker": report.lease.locked_by,
        "attempt": report.lease.attempts,
        "moved_by": report.moved_by,
        "status": report.move.target,
        "delay": report.delay,
        "refund": report.move.refunds,
        "error": report.error,
        "fingerprint": report.fingerprint,
        "result": None if report.result == "null" else report.result,  # SQL's NULL, as the ORM writes it
        "next_id": report.next_id,
    }


def why_lost(leases: Sequence[Lease], using: str) -> dict[Fence, LostReason]:
    """By fence, why a report was rejected."""
    if not leases:
        return {}
    rows = Task.objects.using(using).in_bulk([lease.id for lease in leases])
    return {lease.fence: reason_of(lease, rows.get(lease.id)) for lease in leases}


def reason_of(lease: Lease, task: Task | None) -> LostReason:
    if task is None:
        return LostReason.GONE
    if task.status == Status.CANCELLED:
        return LostReason.CANCELLED
    if task.locked_by == lease.locked_by and task.attempts == lease.attempts:
        return LostReason.EXPIRED
    return LostReason.RECLAIMED
