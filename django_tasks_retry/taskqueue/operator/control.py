"""Control: what operators decide about queues and workers. Each decision is kept as an event."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from ...clock import now
from ...conf import check_queue
from ...errors import UnknownQueue
from ...models import OperatorEvent, Queue, Task, Worker
from ...rules.payload import storable
from ..database import database
from ..events import actor_of
from ..producer.wakeup import announce_work

REASON_LENGTH = 200


def pause(queue: str, *, by: Any = None, reason: str = "", backend: str = "default") -> None:
    """Stop all claims from a queue at once. Running tasks go on."""
    check_queue_in_use(queue, backend)
    using, actor, why = database(backend), actor_of(by), storable(reason)[:REASON_LENGTH]
    with transaction.atomic(using=using):
        decision = {"paused_at": now(using), "paused_by": actor, "reason": why}
        Queue.objects.using(using).update_or_create(name=queue, defaults=decision)
        write_operator_event("queue.paused", queue, actor, why, using)


def check_queue_in_use(queue: str, backend: str) -> None:
    """Refuse a name that stands neither in the settings nor in any waiting task: it is mistyped."""
    try:
        check_queue(queue, backend)
    except UnknownQueue:
        if not Task.objects.using(database(backend)).pending().filter(queue=queue).exists():
            raise


def resume(queue: str, *, by: Any = None, reason: str = "", backend: str = "default") -> bool:
    """Let a paused queue be claimed from again. False where it was not paused."""
    using = database(backend)
    with transaction.atomic(using=using):
        paused = Queue.objects.using(using).paused().filter(name=queue)
        resumed = bool(paused.update(paused_at=None, paused_by="", reason=""))
        if resumed:
            write_operator_event("queue.resumed", queue, actor_of(by), storable(reason)[:REASON_LENGTH], using)
            announce_work({queue}, using)
    return resumed


def ask_to_stop(worker_id: str, *, by: Any = None, reason: str = "", backend: str = "default") -> bool:
    """Ask a worker to finish what it runs and stop. False where it has stopped, or was asked before."""
    using, actor = database(backend), actor_of(by)
    with transaction.atomic(using=using):
        serving = Worker.objects.using(using).filter(pk=worker_id, stopped_at__isnull=True, stop_asked_at__isnull=True)
        asked = bool(serving.update(stop_asked_at=now(using), stop_asked_by=actor))
        if asked:
            write_operator_event("worker.stop_asked", worker_id, actor, storable(reason)[:REASON_LENGTH], using)
    return asked


def write_operator_event(kind: str, subject: str, actor: str, reason: str, using: str) -> None:
    OperatorEvent.objects.using(using).create(kind=kind, subject=subject, ts=now(using), actor=actor, reason=reason)
