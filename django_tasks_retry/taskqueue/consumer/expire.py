"""Expire: tasks that nobody began in time are cancelled. The claim does not take them, whether or not this ran."""

from __future__ import annotations

from uuid import UUID

from ..database import database
from ..engines import engine_for
from ..operator.intervene import Cancellation, cancel_below
from ..producer.wakeup import notify_cancelled
from ..workflows.families import wake_above

REASON = "expired: it was not started in time"
BATCH = 500
"""Tasks at once: on SQLite others wait for it, and a supervisor has other duties."""


def expire(*, backend: str = "default", actor: str = "queue", limit: int = BATCH) -> list[UUID]:
    """Cancel what expired before its first attempt was spent, the oldest first. Fewer than `limit`: none is left."""
    using = database(backend)
    expired = engine_for(using).expire(actor, REASON, limit)
    if expired:
        cancel_below(expired, Cancellation(using, actor, REASON, notify_cancelled))
        wake_above(expired, using)
    return expired
