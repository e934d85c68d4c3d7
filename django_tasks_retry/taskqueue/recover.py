"""Recover: take back tasks whose lease is lost, because it expired or because its worker is known to be dead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from ..clock import frozen, now
from ..models import Task
from ..rules.failure import Code
from ..rules.fingerprint import fingerprint
from ..rules.status import Status
from ..rules.transitions import EventKind
from .database import database, is_postgresql, run, statement
from .events import event, result_of, write_events

MESSAGE = "The worker was lost and no attempt is left."
FINGERPRINT = fingerprint("", Code.LEASE_LOST, MESSAGE, "")


@dataclass(frozen=True, slots=True)
class Recovered:
    id: UUID
    func_path: str
    status: Status
    attempts: int
    locked_by: str


def recover(
    *, backend: str = "default", actor: str = "queue", dead: str | None = None, cause: str = "", limit: int = 1000
) -> list[Recovered]:
    """Take back expired leases, or all leases of the worker `dead`, for which `actor` must be its supervisor."""
    using = database(backend)
    take_back = take_back_on_postgresql if is_postgresql(using) else take_back_on_sqlite
    return take_back(actor, dead, cause or ("worker died" if dead else "lease expired"), limit, using)


def take_back_on_postgresql(actor: str, dead: str | None, cause: str, limit: int, using: str) -> list[Recovered]:
    asked = {"actor": actor, "dead": dead, "cause": cause, "limit": limit}
    parameters = asked | {"message": MESSAGE, "fingerprint": FINGERPRINT}
    return [
        Recovered(row["id"], row["func_path"], Status(row["status"]), row["attempts"], row["lost_by"])
        for row in run(statement("recover"), parameters, using)
    ]


def take_back_on_sqlite(actor: str, dead: str | None, cause: str, limit: int, using: str) -> list[Recovered]:
    with transaction.atomic(using=using), frozen():
        running = Task.objects.using(using).running()
        lost = running.filter(locked_by=dead) if dead else running.lease_expired()
        return [take_back(task, actor, cause, using) for task in lost.order_by("locked_by", "pk")[:limit]]


def take_back(task: Task, actor: str, cause: str, using: str) -> Recovered:
    moment, lost_by = now(using), task.locked_by or ""
    changes: dict[str, Any] = {
        "locked_by": None, "lock_expires_at": None, "moved_by": actor, "updated_at": moment,
    }  # fmt: skip
    events = [event(task, EventKind.LEASE_LOST, actor, moment, {"cause": cause, "worker": lost_by})]
    if task.attempts_left > 0:
        changes |= {"status": Status.PENDING, "eta": moment}
    else:
        error = lost_error(task, moment.isoformat())
        changes |= {"status": Status.FAILED, "finished_at": moment, "last_error": error, "fingerprint": FINGERPRINT}
        events.append(event(task, EventKind.FAILED, actor, moment, {"terminal": True, "error": lost_brief()}))
        result_of(task, Status.FAILED, moment, error=error).save(using=using, force_insert=True)
    Task.objects.using(using).filter(pk=task.pk).update(**changes)
    write_events(events, using)
    return Recovered(task.pk, task.func_path, changes["status"], task.attempts, lost_by)


def lost_brief() -> dict[str, str]:
    return {"message": MESSAGE, "code": Code.LEASE_LOST.value, "exception": "", "traceback": ""}


def lost_error(task: Task, ts: str) -> dict[str, Any]:
    return {
        **lost_brief(),
        "ts": ts,
        "attempt": task.attempts,
        "max_attempts": task.max_attempts,
        "terminal": True,
        "backoff_ms": None,
        "next_eta": None,
    }
