"""Receipts: how attempts ended, as the queue recorded it, whoever reported."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from ...errors import LostReason
from ...models import TaskEvent
from ...rules.status import Status
from ...rules.transitions import EventKind
from ..database import database
from ..lease import Fence, Lease

REPORTED = (EventKind.COMPLETED, EventKind.FAILED, EventKind.RELEASED)


class Receipt(NamedTuple):
    """One attempt that ended, with the task's status after it. `lost` tells why a report was rejected instead."""

    lease: Lease
    status: Status | None
    eta: datetime | None = None
    ts: datetime | None = None
    error: dict[str, Any] | None = None
    lost: LostReason | None = None
    cause: str = ""
    """Why the task was recovered, where nobody reported: the lease expired, or its worker died."""
    is_busy: bool = False
    """Somebody else keeps the row locked: nothing was recorded, and the lease still holds."""
    next_id: UUID | None = None
    """The next occurrence that was enqueued with it, of a repeating task."""

    @property
    def accepted(self) -> bool:
        return self.lost is None and not self.is_busy

    @property
    def final_status(self) -> Status | None:
        """How the task ended, where it ended with this attempt."""
        return self.status if self.accepted and self.status is not Status.PENDING else None

    @property
    def ran_seconds(self) -> float | None:
        """From claimed to recorded, by the queue's clock; None where nothing was recorded."""
        return None if self.ts is None else max(0.0, (self.ts - self.lease.last_attempt_at).total_seconds())


def recorded_receipts(leases: Sequence[Lease], backend: str = "default") -> dict[Fence, Receipt]:
    """What was recorded under these leases, where it was: reading resolves a COMMIT whose answer was lost."""
    by_fence = {lease.fence: lease for lease in leases}
    events = TaskEvent.objects.using(database(backend)).filter(task_id__in=[lease.id for lease in leases])
    receipts: dict[Fence, Receipt] = {}
    for event in events.filter(kind__in=REPORTED):
        fence = (event.task_id, event.actor, event.attempt)
        if fence in by_fence:
            receipts[fence] = receipt_of(event, by_fence[fence])
    return receipts


def receipt_of(event: TaskEvent, lease: Lease) -> Receipt:
    if event.kind == EventKind.COMPLETED:
        status = Status.SUCCESS
    else:
        status = Status.FAILED if event.data.get("terminal") else Status.PENDING
    return Receipt(lease, status, ts=event.ts, error=event.data.get("error"))
