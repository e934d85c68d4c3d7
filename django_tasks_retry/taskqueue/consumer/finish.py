"""Finish: what workers report about their leases, many at once, each under its fence.

A report is accepted only while its lease holds: same task, same worker, same attempt, not expired. Whatever arrives
late changes nothing, and the answer says why. A task whose row somebody else keeps locked holds up no other.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from ...errors import InvalidPayload, LeaseLost, LostReason
from ...rules.failure import Failure
from ..database import database
from ..engines import engine_for
from ..lease import Lease, why_lost
from ..workflows.wake import wake_after
from .receipts import Receipt
from .report import Completed, Failed, Outcome, Released, Report, report_of

PAUSES = (0.01, 0.03, 0.06)
"""Seconds between the tries of `finish`: most locks are another verb's, and gone in a moment."""


def finish(outcomes: Sequence[Outcome]) -> list[Receipt]:
    """Write the outcomes, in one statement on PostgreSQL, and answer each. Tries again what is locked for a moment."""
    reports = [report_of(outcome) for outcome in outcomes]
    receipts = record(reports)
    for pause in PAUSES:
        busy = [n for n, receipt in enumerate(receipts) if receipt.is_busy]
        if not busy:
            break
        time.sleep(pause)
        for n, receipt in zip(busy, record([reports[n] for n in busy]), strict=True):
            receipts[n] = receipt
    return receipts


def record(reports: Sequence[Report]) -> list[Receipt]:
    """Write reports that were made before, and answer each; `is_busy` are those whose row others keep locked."""
    # In the order of their ids, so that two that write about the same tasks cannot deadlock.
    order = sorted(range(len(reports)), key=lambda n: reports[n].lease.id.int)
    receipts = dict(zip(order, answers([reports[n] for n in order]), strict=True)) if reports else {}
    return [receipts[n] for n in range(len(reports))]


def answers(reports: Sequence[Report], *, wait: bool = False) -> list[Receipt]:
    using = database(reports[0].lease.backend)
    moved = engine_for(using).record(reports, wait=wait)
    lost = why_lost([report.lease for n, report in enumerate(reports) if n not in moved], using)
    receipts = [
        Receipt(report.lease, report.move.target, *moved[n], error=report.error, next_id=report.next_id)
        if n in moved
        else rejected(report.lease, lost.get(report.lease.fence))
        for n, report in enumerate(reports)
    ]
    wake_after(reports, receipts, using)
    return receipts


def rejected(lease: Lease, lost: LostReason | None) -> Receipt:
    """A lease that is not lost was passed over, for somebody else keeps the task's row locked."""
    return Receipt(lease, None, lost=lost, is_busy=lost is None)


# One task, for callers that have nothing else to do: these wait where somebody else keeps its row locked.


def complete_task(lease: Lease, result: Any = None) -> Receipt:
    return record_one(report_of(Completed(lease, result)))


def fail_task(lease: Lease, error: BaseException | Failure) -> Receipt:
    """Record the failure; the receipt tells whether and when the task is tried again."""
    return record_one(report_of(Failed(lease, error)))


def complete_within(lease: Lease, result: Any) -> Receipt:
    """Complete inside the caller's transaction, or raise so that it rolls back: nothing else is recorded."""
    report = report_of(Completed(lease, result))
    if report.error is not None:
        raise InvalidPayload(report.error["message"])
    return record_one(report)


def release_task(lease: Lease, reason: str, delay: float | None = None) -> Receipt:
    return record_one(report_of(Released(lease, reason, delay)))


def record_one(report: Report) -> Receipt:
    [receipt] = answers([report], wait=True)
    if not receipt.accepted:
        raise LeaseLost(receipt.lost or LostReason.RECLAIMED, report.lease.id)
    return receipt
