"""How long leases were renewed: seen from outside, by looking at the running tasks now and then."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

LONG_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Sighting:
    """A lease that was claimed a while ago. All by the queue's clock; `renewed` is when it was renewed last."""

    task: UUID
    attempt: int
    claimed: float
    renewed: float
    timeout: float


@dataclass(slots=True)
class Lookout:
    """Keeps the last sighting of each attempt that was renewed for long."""

    lease: float
    seen: dict[tuple[UUID, int], Sighting] = field(default_factory=dict)

    def look(self) -> None:
        from django_tasks_retry.models import Task

        columns = ("pk", "attempts", "last_attempt_at", "lock_expires_at", "timeout")
        for task, attempt, claimed, expires, timeout in Task.objects.running().values_list(*columns):
            renewed = expires.timestamp() - self.lease
            if renewed - claimed.timestamp() > LONG_SECONDS:
                self.seen[task, attempt] = Sighting(task, attempt, claimed.timestamp(), renewed, timeout)
