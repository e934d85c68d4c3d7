"""Claim: due tasks become RUNNING under a lease. Two claimers never get the same task, and nobody waits for anybody."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

from django.db import DataError, IntegrityError

from ... import registry
from ...clock import now
from ...conf import options
from ...models import LaneState, Task
from ...rules.failure import Code, Failure
from ...rules.payload import noted
from ..database import database
from ..engines import Engine, engine_for
from ..engines.base import Terms
from ..lanes.limits import limit_of
from ..lease import Claimed, Lease
from .finish import record
from .lanes import HOPS, MOST_HOPS, Lane, Lanes
from .report import Failed, report_of
from .turns import Turns

logger = logging.getLogger("django_tasks_retry")


def claim(
    worker_id: str,
    queues: Sequence[str] = ("*",),
    limit: int = 1,
    lease: float | None = None,
    *,
    backend: str = "default",
    lanes: Lanes | None = None,
    at_once: int | None = None,
) -> list[Lease]:
    """Up to `limit` leases, most urgent first. Pass the same `lanes` each time to let claims build on one another.

    Of lanes that are limited, at most `at_once`: as many as the claimer starts at once.
    What the remembered lanes yield is not held back until others are looked for: the next claim does that, and while
    `lanes.came_short` there may be more.
    """
    engine, lanes = engine_for(database(backend)), lanes or Lanes(queues)
    seconds = options(backend).lease if lease is None else lease
    known = registry.known_paths() if lanes.paths is None else lanes.paths
    terms = Terms(worker_id, backend, seconds, known, places=lanes.crowd.places())
    lanes.hops = max(HOPS, min(limit, MOST_HOPS))
    lanes.patience, starting = options(backend).patience, limit if at_once is None else at_once
    lanes.forget_opened()
    if not lanes.are_stale():
        claimed = take(lanes, limit, starting, terms, engine)
        lanes.came_short = 0 < len(claimed) < limit
        if claimed or claimed.turned_away or not lanes.may_look():
            return claimed.leases
    return take(lanes, limit, starting, terms, engine).leases if lanes.look(engine, backend) else []


def is_work_due(lanes: Lanes, backend: str = "default") -> bool:
    """Whether a task may be due in a queue that these lanes serve. For those who claim nothing themselves."""
    return lanes.may_look() and lanes.look(engine_for(database(backend)), backend)


def claim_task(task: Task, worker_id: str, *, backend: str = "default") -> Lease | None:
    """A lease on this very task, by the rules of every claim: None where it is not due, paused, locked or taken."""
    using = database(backend)
    lane = Lane(task.queue, task.priority, task.eta, now(using), floor_id=task.pk, key=task.lane)
    terms = Terms(worker_id, backend, options(backend).lease, [task.func_path], only=task.pk)
    lanes = Lanes(lanes=[lane], has_keyed=bool(task.lane))
    labels = [task.lane, f"queue:{task.queue}", f"function:{task.func_path}"]
    lanes.states = frozenset(LaneState.objects.using(using).labels(labels))
    lane.is_limited = bool(task.lane) and (task.lane in lanes.states or limit_of(task.lane, backend).is_limited)
    for _ in range(1 + lane.is_limited):  # the first time makes the row of a lane that has none
        claimed = take(lanes, 1, 1, terms, engine_for(using))
        if claimed.leases:
            return claimed.leases[0]
        lanes.closed_until.clear()
    return None


def take(lanes: Lanes, limit: int, at_once: int, terms: Terms, engine: Engine) -> Claimed:
    if not lanes.lanes or limit < 1:
        return Claimed()
    began, in_parts = time.monotonic(), lanes.has_gates(terms.backend)
    if in_parts:
        claimed = Turns(lanes, limit, at_once, terms, engine).claim()
    else:
        claimed = engine.claim(lanes.in_order(), limit, terms)
    claimed.leases.sort(key=urgency)
    if claimed.turned_away:
        lanes.note_turned_away(claimed.leases)
    else:
        came_to_the_end = len(claimed) < limit and not in_parts
        lanes.note_claim(claimed.leases, time.monotonic() - began, came_to_the_end=came_to_the_end)
    if claimed.unreadable:
        fail_unreadable(claimed.unreadable)
    return claimed


def fail_unreadable(unreadable: Sequence[tuple[Lease, str]]) -> None:
    """End them, each under its own lease: an attempt would need what cannot be read, and so would the next one."""
    for lease, reason in unreadable:
        message = noted(f"The task's row cannot be read. {reason}")
        logger.error("%s %s fails: %s", lease.func_path, lease.id, message)
        failure = Failure(message, Code.UNREADABLE, exception="", traceback="")
        try:
            record([report_of(Failed(lease, failure))])
        except (DataError, IntegrityError):
            logger.exception("the failure of %s %s is refused; its lease will expire", lease.func_path, lease.id)


def urgency(lease: Lease) -> Any:
    return -lease.priority, lease.eta, lease.id.int
