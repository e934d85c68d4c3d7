"""Finish: what workers report about their leases, many at once, each under its fence.

A report is accepted only while its lease holds: same task, same worker, same attempt, not expired. Whatever arrives
late changes nothing, and the answer says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import InvalidPayload, LeaseLost
from ..rules.failure import Failure
from .database import database
from .engines import engine_for
from .lease import Lease, why_lost
from .receipts import Receipt
from .report import Completed, Failed, Outcome, Released, Report, report_of


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
    moved = engine_for(using).record(reports)
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
