"""Recover: take back tasks whose lease is lost, because it expired or because its worker is known to be dead."""

from __future__ import annotations

from ..database import database
from ..engines import engine_for
from ..engines.base import Loss
from ..workflows.wake import keys_of, wake_later
from .receipts import Receipt


def recover(
    *, backend: str = "default", actor: str = "queue", dead: str | None = None, cause: str = "", limit: int = 1000
) -> list[Receipt]:
    """Take back expired leases, or all leases of the worker `dead`, for which `actor` must be its supervisor."""
    loss = Loss(actor, dead, cause or ("worker died" if dead else "lease expired"))
    using = database(backend)
    receipts = engine_for(using).recover(loss, limit)
    wake_later(keys_of({r.lease.batch for r in receipts if r.lease.batch and r.final_status is not None}), using)
    return receipts
