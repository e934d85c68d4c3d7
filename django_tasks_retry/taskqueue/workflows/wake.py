"""Wake: a task that waits for a batch or a signal is due once that has come. By a reschedule, never by a counter.

Asked in a statement of its own, after the commit that may have been the last: of two members that end at once, the
later one sees both. Who dies in between leaves it to the sweep, which any worker makes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import partial
from uuid import UUID

from django.db import Error, transaction

from ...clock import Now
from ...models import Signal, Task
from ...rules.transitions import RESCHEDULE
from ..consumer.receipts import Receipt
from ..consumer.report import Report
from ..engines import engine_for
from ..events import events_of, write_events
from ..locks import locked
from ..producer.wakeup import notify_work
from .batches import without_success

logger = logging.getLogger("django_tasks_retry")
BATCH, SIGNAL, FAIL_FAST = "batch:", "signal:", ":fail_fast"
ACTOR = "queue"
MOST = 1000
"""Tasks that are woken at once."""
FIRST = UUID(int=0)
MOVED = ("pk", "attempts", "queue", "priority", "eta", "updated_at")


def batch_key(batch: UUID, *, fail_fast: bool = False) -> str:
    return f"{BATCH}{batch}{FAIL_FAST if fail_fast else ''}"


def signal_key(name: str) -> str:
    return f"{SIGNAL}{name}"


def batch_of(key: str) -> UUID | None:
    """The batch that a task waits for, where it waits for one."""
    return UUID(key.removeprefix(BATCH).removesuffix(FAIL_FAST)) if key.startswith(BATCH) else None


def keys_of(batches: Iterable[UUID]) -> list[str]:
    return [batch_key(batch, fail_fast=fast) for batch in batches for fast in (False, True)]


def wake_after(reports: Sequence[Report], receipts: Sequence[Receipt], using: str) -> None:
    """After these reports: who waits for a batch of which they ended a member; and who has just begun to wait."""
    ended = {r.lease.batch for r in receipts if r.lease.batch is not None and r.final_status is not None}
    begun = {report.waits_for for report, r in zip(reports, receipts, strict=True) if report.waits_for and r.accepted}
    wake_later([*keys_of(batch for batch in ended if batch), *begun], using)


def wake_later(keys: Sequence[str], using: str) -> None:
    """Once the caller's transaction has committed; at once where there is none."""
    if keys:
        transaction.on_commit(partial(try_to_wake, keys, using), using=using, robust=True)


def try_to_wake(keys: Sequence[str], using: str) -> None:
    """No trouble with it reaches the caller, whose report is recorded: the sweep comes by."""
    try:
        wake(keys, using)
    except Error:
        logger.debug("waiting tasks are left to the sweep", exc_info=True)


def wake(keys: Sequence[str], using: str) -> list[UUID]:
    """Make due those of the tasks waiting for one of these whose wait is over. Returns them.

    A bounded number: where a crowd waits for one signal, the sweep wakes the others, and who sent it need not wait.
    """
    waiting = Task.objects.using(using).suspended().filter(waits_for__in=keys).order_by("waits_for", "pk")
    return reschedule_ready(list(waiting.values_list("pk", "waits_for")[:MOST]), using)


def reschedule_ready(waiting: Sequence[tuple[UUID, str]], using: str) -> list[UUID]:
    ready = {key for key in {key for _, key in waiting} if has_come(key, using)}
    ids = [pk for pk, key in waiting if key in ready]
    return make_due(ids, ready, using) if ids else []


def has_come(key: str, using: str) -> bool:
    batch = batch_of(key)
    if batch is None:
        return Signal.objects.using(using).filter(pk=key.removeprefix(SIGNAL)).exists()
    if key.endswith(FAIL_FAST) and without_success(batch, using).exists():
        return True
    return not hints.is_open(batch, using)


def make_due(ids: Sequence[UUID], keys: Iterable[str], using: str) -> list[UUID]:
    """Only what still waits for that: a wake that comes late must not cut a later backoff short."""
    with transaction.atomic(using=using):
        mine = locked(Task.objects.using(using).suspended().filter(waits_for__in=list(keys)), ids, wait=False)
        tasks = Task.objects.using(using).filter(pk__in=mine)
        tasks.update(eta=Now(), waits_for=None, moved_by=ACTOR, updated_at=Now())
        woken = list(tasks.only(*MOVED))
        data = {"reason": "what it waited for has come"}
        write_events(
            [e for t in woken for e in events_of(RESCHEDULE, t, ACTOR, t.updated_at, place_of(t) | data)], using
        )
    # By this connection: a supervisor starts no threads.
    notify_work({task.queue for task in woken}, using)
    return mine


def place_of(task: Task) -> dict[str, object]:
    return {"eta": task.eta.isoformat(), "queue": task.queue, "priority": task.priority}


class Hints:
    """Which member of a batch was open when it was last looked at: it is looked at first the next time.

    Else each look would walk past the entries that members left in the index when they ended, and a batch would cost
    the square of its size. A hint may be wrong; it is never believed, only tried first.
    """

    MOST = 1000

    def __init__(self) -> None:
        self.seen: dict[tuple[str, UUID], UUID] = {}

    def is_open(self, batch: UUID, using: str) -> bool:
        engine, seen = engine_for(using), self.seen.pop((using, batch), None)
        found = (seen and engine.open_member(batch, seen)) or engine.open_member(batch, FIRST)
        if found is not None:
            if len(self.seen) >= self.MOST:
                self.seen.pop(next(iter(self.seen)), None)
            self.seen[using, batch] = found
        return found is not None


hints = Hints()
