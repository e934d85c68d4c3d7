"""A lease: the only ticket to complete, fail, release or renew a task."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextvars import ContextVar
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from django.db.models import Case, Value, When

from ..clock import Now
from ..errors import LostReason
from ..models import Task
from ..querysets import TaskQuerySet
from ..rules.status import Status
from ..rules.transitions import KEPT
from .database import database

Fence: TypeAlias = tuple[UUID, str, int]


class Lease(NamedTuple):
    """One attempt, as it was claimed: who holds it, what to call and by which policy."""

    id: UUID
    locked_by: str
    attempts: int
    lock_expires_at: datetime
    func_path: str
    args: list[Any]
    kwargs: dict[str, Any]
    queue: str
    priority: int
    backend: str
    eta: datetime
    slot: datetime | None
    max_attempts: int
    refunds: int
    backoff: Any
    timeout: float
    interval: float
    run_id: UUID
    metadata: dict[str, Any]
    created_at: datetime
    started_at: datetime
    last_attempt_at: datetime

    @property
    def fence(self) -> Fence:
        """What a report must match: this very claim of this very task."""
        return self.id, self.locked_by, self.attempts

    @property
    def signature(self) -> str:
        """The lease as a report states it in `moved_by`, where the guard compares it with the row."""
        return f"{self.locked_by}:{self.attempts}"

    @property
    def spent(self) -> int:
        """Attempts spent, this one included; refunds not counted."""
        return self.attempts - self.refunds

    @property
    def wait_seconds(self) -> float:
        """From due to claimed, by the queue's clock."""
        return max(0.0, (self.last_attempt_at - self.eta).total_seconds())


COLUMNS = list(Lease._fields)
JSON_PLACES = [COLUMNS.index(name) for name in ("args", "kwargs", "backoff", "metadata")]
decode = json.JSONDecoder().raw_decode


def read_lease(row: Sequence[Any]) -> Lease:
    """A lease from a raw row of `COLUMNS`, in which JSON arrives as text."""
    values = list(row)
    for place in JSON_PLACES:
        if isinstance(values[place], str):
            values[place], _ = decode(values[place])
    return Lease(*values)


def lease_of(task: Task, **changes: Any) -> Lease:
    """The lease in a task's row."""
    return Lease(**{name: getattr(task, name) for name in COLUMNS} | changes)


def leased_by(lease: Lease) -> TaskQuerySet:
    """The task, while this very lease on it holds."""
    tasks: TaskQuerySet = Task.objects.using(database(lease.backend))
    return tasks.filter(pk=lease.id, locked_by=lease.locked_by, attempts=lease.attempts, lock_expires_at__gt=Now())


def kept_by(name: str) -> Case:
    """What a renewal writes into `moved_by`, other than the last one."""
    return Case(When(moved_by__endswith=KEPT * 2, then=Value(name + KEPT)), default=Value(name + KEPT * 2))


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


current_lease: ContextVar[Lease | None] = ContextVar("current_lease", default=None)
"""The attempt that is running in this context: tasks it enqueues inherit its run."""
