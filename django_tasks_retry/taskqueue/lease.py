"""A lease: the only ticket to complete, fail, release or renew a task."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextvars import ContextVar
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

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


current_lease: ContextVar[Lease | None] = ContextVar("current_lease", default=None)
"""The attempt that is running in this context: tasks it enqueues inherit its run."""
