"""Claim: due tasks become RUNNING under a lease. Two claimers never get the same task, and nobody waits for anybody."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import registry
from ..conf import options
from .database import database
from .engines import Engine, engine_for
from .engines.base import Terms
from .lanes import Lanes
from .lease import Lease


def claim(
    worker_id: str,
    queues: Sequence[str] = ("*",),
    limit: int = 1,
    lease: float | None = None,
    *,
    backend: str = "default",
    lanes: Lanes | None = None,
) -> list[Lease]:
    """Up to `limit` leases, most urgent first. Pass the same `lanes` each time to let claims build on one another.

    What the remembered lanes yield is not held back until others are looked for: the next claim does that, and while
    `lanes.came_short` there may be more.
    """
    engine, lanes = engine_for(database(backend)), lanes or Lanes(queues)
    seconds = options(backend).lease if lease is None else lease
    known = registry.known_paths() if lanes.paths is None else lanes.paths
    terms = Terms(worker_id, backend, seconds, known)
    if not lanes.are_stale():
        leases = take(lanes, limit, terms, engine)
        lanes.came_short = 0 < len(leases) < limit
        if leases or not lanes.may_look():
            return leases
    return take(lanes, limit, terms, engine) if lanes.look(engine) else []


def take(lanes: Lanes, limit: int, terms: Terms, engine: Engine) -> list[Lease]:
    if not lanes.lanes or limit < 1:
        return []
    leases = sorted(engine.claim(lanes.in_order(), limit, terms), key=urgency)
    lanes.raise_floors(leases)
    return leases


def urgency(lease: Lease) -> Any:
    return -lease.priority, lease.eta, lease.id.int
