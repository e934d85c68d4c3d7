"""Recover: take back tasks whose lease is lost, because it expired or because its worker is known to be dead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..database import database
from ..engines import engine_for
from ..engines.base import Loss
from ..workflows.wake import keys_of, wake_later
from .receipts import Receipt


def recover(
    *,
    backend: str = "default",
    actor: str = "queue",
    dead: str | None = None,
    cause: str = "",
    limit: int = 1000,
    crashed: bool = False,
    facts: Mapping[str, Any] | None = None,
) -> list[Receipt]:
    """Take back expired leases, or all leases of the worker `dead`, for which `actor` must be its supervisor.

    `crashed` says that the process died by itself, so that each of the tasks may be why; `facts` tell how.
    """
    loss = Loss(actor, dead, cause or ("worker died" if dead else "lease expired"), crashed, facts or {})
    using = database(backend)
    receipts = engine_for(using).recover(loss, limit)
    wake_later(keys_of({r.lease.batch for r in receipts if r.lease.batch and r.final_status is not None}), using)
    return receipts
