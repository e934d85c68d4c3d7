"""Signals, and waking: tasks that wait for a batch or a signal are rescheduled once it has come.

The check is a statement of its own, after the commit of the member's end: of two members that end at once, the later
one sees both. If a worker dies in between, the sweep of any worker wakes the task.
"""

import logging
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from time import monotonic
from typing import Any, NamedTuple
from uuid import UUID

from django.db import Error, transaction
from django.db.models.expressions import Combinable

from ...clock import Now
from ...conf import options, shard_backends
from ...models import MAX_NAME, Signal, Task
from ...rules.payload import checked_name, encoded
from ..database import database
from ..engines import engine_for
from ..engines.base import Suspended
from ..enqueue.notify import notify_work
from ..events import RESCHEDULED, actor_of, write_rescheduled
from ..report import Receipt, Report
from ..shards import check_answers
from ..timeouts import locked
from .members import CANARY, FAIL_FAST, SIGNAL, batch_of, keys_of, signal_key, without_success

logger = logging.getLogger("django_tasks_retry")
ACTOR = "queue"
NOW = Now()
MOST = 1000  # tasks that one call of wake() makes due
PAGE = 1000
FIRST = Suspended(UUID(int=0), "", is_ready=False)
RECENT = timedelta(seconds=60)
"""The period that the first sweep reads. Later ones read since the sweep before, and MARGIN more."""

MARGIN = timedelta(seconds=2)  # an end is dated before its commit


def wake_after(reports: Sequence[Report], receipts: Sequence[Receipt], using: str) -> None:
    """Wake tasks that wait for a batch in which these reports ended a member, or that have just begun to wait."""
    ended = {r.lease.batch for r in receipts if r.lease.batch is not None and r.final_status is not None}
    begun = {report.waits_for for report, r in zip(reports, receipts, strict=True) if report.waits_for and r.accepted}
    wake_later([*keys_of(batch for batch in ended if batch), *begun], using)


def wake_waiters(ids: Sequence[UUID], using: str) -> None:
    """Wake tasks that wait for a batch of which these were members."""
    members = Task.objects.using(using).filter(pk__in=ids, batch__isnull=False)
    wake_later(keys_of(set(members.values_list("batch", flat=True))), using)


def wake_later(keys: Sequence[str], using: str) -> None:
    """Wake when the caller's transaction has committed; at once if there is none."""
    if keys:
        transaction.on_commit(partial(try_to_wake, keys, using), using=using, robust=True)


def try_to_wake(keys: Sequence[str], using: str) -> None:
    """Wake, and leave failures to the sweep: the caller's report is recorded already."""
    try:
        wake(keys, using)
    except Error:
        logger.debug("waiting tasks are left to the sweep", exc_info=True)


def wake(keys: Sequence[str], using: str) -> list[UUID]:
    """Make tasks due that wait for one of these keys, if it has come. Returns them.

    Wakes a bounded number. If more wait for one signal, the sweep wakes the rest, so its sender need not wait.
    """
    # Signals first: many tasks may wait for one, and each that begins to would read those before it.
    keys = [key for key in keys if batch_of(key) is not None or has_come(key, using)]
    if not keys:
        return []
    tasks = Task.objects.using(using).suspended().filter(waits_for__in=keys).order_by("waits_for", "pk")
    waiting: list[tuple[UUID, Any]] = list(tasks.values_list("pk", "waits_for")[:MOST])
    ready = {key for key in {key for _, key in waiting} if batch_of(key) is None or has_come(key, using)}
    ids = [pk for pk, key in waiting if key in ready]
    return make_due(ids, ready, using) if ids else []


def has_come(key: str, using: str) -> bool:
    batch = batch_of(key)
    if batch is None:
        return Signal.objects.using(using).filter(pk=key.removeprefix(SIGNAL)).exists()
    if key.endswith(FAIL_FAST) and without_success(batch, using).exists():
        return True
    return not open_member_cache.is_open(batch, using)


def make_due(
    ids: Sequence[UUID],
    keys: Iterable[str],
    using: str,
    eta: Combinable = NOW,
    reason: str = "what it waited for has come",
) -> list[UUID]:
    """Reschedule tasks that still wait for these keys: a late wake must not cut a later backoff short."""
    with transaction.atomic(using=using):
        mine = locked(Task.objects.using(using).suspended().filter(waits_for__in=list(keys)), ids, wait=False)
        tasks = Task.objects.using(using).filter(pk__in=mine)
        tasks.update(eta=eta, waits_for=None, moved_by=ACTOR, updated_at=Now())
        woken = list(tasks.only(*RESCHEDULED))
        write_rescheduled(woken, ACTOR, reason, using)
    # On this connection: a supervisor starts no threads.
    notify_work({task.queue for task in woken}, using)
    return mine


class OpenMemberCache:
    """Remembers an unfinished member of each batch, which the next check reads first.

    Without it each check would walk past the dead index entries of finished members, and a batch would cost the square
    of its size. An entry may be stale, so it is always checked again.
    """

    MOST = 1000

    def __init__(self) -> None:
        self.seen: dict[tuple[str, UUID], UUID] = {}

    def is_open(self, batch: UUID, using: str) -> bool:
        engine, seen = engine_for(using), self.seen.pop((using, batch), None)
        found = (seen and engine.open_member(batch, seen)) or engine.open_member(batch, FIRST.id)
        if found is not None:
            if len(self.seen) >= self.MOST:
                self.seen.pop(next(iter(self.seen)), None)
            self.seen[using, batch] = found
        return found is not None


open_member_cache = OpenMemberCache()


@dataclass(slots=True)
class Sweep:
    """Wakes tasks whose waker died between its commit and the wake. Any worker sweeps, a page at a time.

    It reads what has ended since the sweep before, so it finds ready tasks soon, however many wait. It also pages
    through all waiting tasks, from a random start so that workers share the round: for ends in a transaction that
    took long to commit, or while no worker ran.
    """

    backend: str = "default"
    after: tuple[str, UUID] = field(default_factory=lambda: (f"batch:{secrets.token_hex(4)}", FIRST.id))
    polled_at: float | None = None
    is_behind: bool = False  # whether it found so many that there may be more
    logged: set[UUID] = field(default_factory=set)  # tasks that nothing can wake, which the log has named

    def __call__(self) -> list[UUID]:
        found = [self.recent(), self.page()]
        self.is_behind = max(map(len, found)) >= PAGE // 2
        return [task_id for woken in found for task_id in woken]

    def recent(self) -> list[UUID]:
        """Wake tasks that wait for what has recently come."""
        using, began = database(self.backend), monotonic()
        window = RECENT if self.polled_at is None else min(RECENT, timedelta(seconds=began - self.polled_at) + MARGIN)
        keys = recent_keys(window, using)
        woken = wake_ready(engine_for(using).waiting_for(keys, PAGE), using) if keys else []
        self.polled_at = began
        return woken

    def page(self) -> list[UUID]:
        """Wake the ready tasks of the next page of all that wait."""
        using = database(self.backend)
        page = engine_for(using).waiting_tasks(self.after, PAGE)
        last = page[-1] if len(page) == PAGE else FIRST
        self.after = last.waits_for, last.id
        self.log_lost([each for each in page if each.is_ready is None and not self.is_known(each)])
        return wake_ready(page, using)

    def is_known(self, lost: Suspended) -> bool:
        return lost.id in self.logged or lost.waits_for.startswith(CANARY)

    def log_lost(self, lost: Sequence[Suspended]) -> None:
        """Name tasks that nothing can wake, each once and a bounded number in all."""
        for each in lost[: max(0, MOST - len(self.logged))]:
            self.logged.add(each.id)
            logger.warning(
                "task %s waits for %r, which is neither a batch nor a signal, so nothing wakes it; cancel it",
                each.id, each.waits_for[:100],
            )  # fmt: skip

    def everything(self) -> list[UUID]:
        """Go once through all tasks that wait."""
        self.after = FIRST.waits_for, FIRST.id
        woken = self.page()
        while self.after != (FIRST.waits_for, FIRST.id):
            woken += self.page()
        return woken


def recent_keys(window: timedelta, using: str) -> list[str]:
    """Return keys of batches with a member that ended in this window, and of signals that came in it."""
    ended = Task.objects.using(using).filter(batch__isnull=False, finished_at__gt=Now() - window)
    came = Signal.objects.using(using).filter(ts__gt=Now() - window)
    batches = set(ended.values_list("batch", flat=True).distinct())
    return [*keys_of(batches), *map(signal_key, came.values_list("pk", flat=True))]


def wake_ready(waiting: Sequence[Suspended], using: str) -> list[UUID]:
    ready = [each for each in waiting if each.is_ready]
    return make_due([each.id for each in ready], {each.waits_for for each in ready}, using) if ready else []


KEEP = timedelta(days=90)


class Received(NamedTuple):
    """The payload of a signal, and when it was sent."""

    payload: Any
    ts: datetime
    actor: str


def signal(name: str, payload: Any = None, *, by: Any = None, backend: str = "default") -> bool:
    """Wake tasks that wait for this name, now or later, in the caller's transaction. False if it was sent before.

    Every shard is told. Those whose transaction is not the caller's are told at once, so sending it again is harmless.
    """
    shards = shard_backends(backend)
    for shard in shards:
        check_answers(shard)
    firsts = [signal_in(shard, name, payload, by) for shard in shards]
    return any(firsts)


def signal_in(backend: str, name: str, payload: Any, by: Any) -> bool:
    using = database(backend)
    stored, text = encoded(payload, f"The payload of signal {name!r}", options(backend).max_args_size)
    name = checked_name(name, "name", MAX_NAME)
    is_first = engine_for(using).add_signal(name, None if stored is None else text, actor_of(by))
    # Also if it was sent before: its sender may have died before the wake.
    wake_later([signal_key(name)], using)
    return is_first


def received(name: str, using: str) -> Received | None:
    found = Signal.objects.using(using).filter(pk=name).first()
    return None if found is None else Received(found.payload, found.ts, found.actor)


def forget_signals(*, backend: str = "default") -> int:
    """Delete signals that are older than any task should wait for."""
    past = Signal.objects.using(database(backend)).filter(ts__lt=Now() - KEEP)
    return past._raw_delete(past.db)
