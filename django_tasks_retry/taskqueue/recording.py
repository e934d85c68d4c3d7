"""Record: what workers report about their leases, many at once, each under its fence.

A report is accepted only while its lease holds: same task, same worker, same attempt, not expired. A report that
arrives late changes nothing, and the answer says why. A task whose row is locked delays no other.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import takewhile
from typing import Any, NamedTuple
from uuid import UUID

from django.db import IntegrityError, transaction

from ..errors import InvalidPayload, LeaseLost, LostReason
from ..models import Task, TaskEvent, TaskQuerySet
from ..rules.failure import Failure
from ..rules.status import Status
from ..rules.transitions import GIVE_UP, RELEASE, EventKind
from .database import UNREADABLE, database
from .engines import engine_for
from .engines.base import RecoverRequest
from .enqueue.enqueue import follow_up
from .enqueue.insert import insert_rows
from .enqueue.notify import notify_cancelled, notify_work
from .lease import Fence, Lease, why_lost
from .renewal import outlasts
from .report import Completed, Failed, Outcome, Receipt, Released, Report, report_of
from .workflows.cancel import Cancellation, cancel_below, cancel_free
from .workflows.members import keys_of
from .workflows.wake import wake_after, wake_later, wake_waiters

logger = logging.getLogger("django_tasks_retry")
REPORTED = (EventKind.COMPLETED, EventKind.FAILED, EventKind.RELEASED)
WARN_AFTER_RELEASES = 5
"""Consecutive releases after which a warning is logged, and again after as many: a deploy causes only one."""
MOST_RELEASES = 100
PAUSES = (0.01, 0.03, 0.06)
"""Seconds between the tries of `finish`: most locks are another verb's, and gone in a moment."""


def finish(outcomes: Sequence[Outcome]) -> list[Receipt]:
    """Write the outcomes, in one statement on PostgreSQL, and answer each. Tries again what is locked for a moment."""
    reports = [report_of(outcome) for outcome in outcomes]
    receipts = record(reports)
    for pause in PAUSES:
        busy = [n for n, receipt in enumerate(receipts) if receipt.is_busy]
        if not busy:
            break
        time.sleep(pause)
        for n, receipt in zip(busy, record([reports[n] for n in busy]), strict=True):
            receipts[n] = receipt
    return receipts


def record(reports: Sequence[Report]) -> list[Receipt]:
    """Write reports that were made before, and answer each; `is_busy` are those whose row others keep locked."""
    # In the order of their ids, so that two that write about the same tasks cannot deadlock.
    order = sorted(range(len(reports)), key=lambda n: reports[n].lease.id.int)
    receipts = dict(zip(order, answers([reports[n] for n in order]), strict=True)) if reports else {}
    return [receipts[n] for n in range(len(reports))]


def answers(reports: Sequence[Report], *, wait: bool = False) -> list[Receipt]:
    using = database(reports[0].lease.backend)
    giving_up = [report.lease.id for report in reports if report.move is GIVE_UP]
    with following_up(Task.objects.using(using).filter(pk__in=giving_up) if giving_up else None, using) as follow:
        moved = engine_for(using).record(reports, wait=wait)
        follow(reports[n].lease.id for n in moved)
    lost = why_lost([report.lease for n, report in enumerate(reports) if n not in moved], using)
    receipts = [
        Receipt(report.lease, report.move.target, *moved[n], error=report.error, next_id=report.next_id)
        if n in moved
        else rejected(report.lease, lost.get(report.lease.fence))
        for n, report in enumerate(reports)
    ]
    receipts = [
        with_releases(receipt, using) if report.move is RELEASE else receipt
        for report, receipt in zip(reports, receipts, strict=True)
    ]
    wake_after(reports, receipts, using)
    return receipts


@contextmanager
def following_up(asking: TaskQuerySet | None, using: str) -> Iterator[Callable[[Iterable[UUID]], None]]:
    """Yield what enqueues the calls of those that fail, in the transaction in which they do."""
    ids = set(asking.filter(on_failure__isnull=False).values_list("pk", flat=True)) if asking is not None else set()
    if not ids:
        yield lambda _: None
        return
    engine_for(using).clear_strays()  # inside a transaction nothing could be tried again
    with transaction.atomic(using=using, savepoint=False):
        yield lambda failed: enqueue_follow_ups(ids.intersection(failed), using)


def enqueue_follow_ups(ids: Iterable[UUID], using: str) -> None:
    """Enqueue for those that failed. A call that cannot be stored costs itself alone."""
    failed, queues = Task.objects.using(using).failed().only("run_id", "backend", "on_failure"), set()
    for pk in ids:
        try:
            with transaction.atomic(using=using):
                stored = insert_rows([follow_up(each) for each in failed.filter(pk=pk)], using)
        except (*UNREADABLE, IntegrityError, KeyError, TypeError, ValueError) as error:
            logger.error("on_failure of task %s cannot be enqueued: %s", pk, error)
        else:
            queues |= {task.queue for task in stored}
    transaction.on_commit(partial(notify_work, queues, using), using=using, robust=True)


def rejected(lease: Lease, lost: LostReason | None) -> Receipt:
    """A lease that is not lost was passed over, for somebody else keeps the task's row locked."""
    return Receipt(lease, None, lost=lost, is_busy=lost is None)


# One task, for callers that have nothing else to do: these wait where somebody else keeps its row locked.


def complete_task(lease: Lease, result: Any = None) -> Receipt:
    """Record the success and its result; raise `LeaseLost` if the lease no longer holds."""
    return record_one(report_of(Completed(lease, result)))


def fail_task(lease: Lease, error: BaseException | Failure) -> Receipt:
    """Record the failure. The receipt says whether and when the task is tried again."""
    return record_one(report_of(Failed(lease, error)))


def complete_within(lease: Lease, result: Any) -> Receipt:
    """Complete inside the caller's transaction, or raise so that it rolls back: nothing else is recorded."""
    report = report_of(Completed(lease, result))
    if report.error is not None:
        raise InvalidPayload(report.error["message"])
    try:
        return record_one(report)
    except LeaseLost as lost:
        if lost.reason is not LostReason.EXPIRED or not outlasts(lease):
            raise
        return record_one(report)


def release_task(lease: Lease, reason: str, delay: float | None = None) -> Receipt:
    """Return the task to the queue with its attempt refunded, due at once or after `delay` seconds."""
    return record_one(report_of(Released(lease, reason, delay)))


def record_one(report: Report) -> Receipt:
    [receipt] = answers([report], wait=True)
    if not receipt.accepted:
        raise LeaseLost(receipt.lost or LostReason.RECLAIMED, report.lease.id)
    return receipt


# What was recorded


def releases_in_a_row(task_id: UUID, using: str) -> tuple[int, str]:
    """Return how many of its last attempts in a row were released unasked, up to 100, and the last reason."""
    ends = TaskEvent.objects.using(using).filter(task_id=task_id, kind__in=(*REPORTED, EventKind.LEASE_LOST))
    row = takewhile(is_unasked_release, ends.order_by("-pk").values_list("kind", "data")[:MOST_RELEASES])
    reasons = [str(data.get("reason", "")) for _, data in row]
    return len(reasons), reasons[0] if reasons else ""


def is_unasked_release(event: tuple[str, Any]) -> bool:
    kind, data = event
    return kind == EventKind.RELEASED and isinstance(data, dict) and not data.get("by_task")


def with_releases(receipt: Receipt, using: str) -> Receipt:
    """Only a task with so many refunds can have been released so often, and few have: the others cost no question."""
    if not receipt.accepted or receipt.lease.refunds + 1 < WARN_AFTER_RELEASES:
        return receipt
    count, _ = releases_in_a_row(receipt.lease.id, using)
    return receipt if count % WARN_AFTER_RELEASES else receipt._replace(releases=count)


def recorded_receipts(leases: Sequence[Lease], backend: str = "default") -> dict[Fence, Receipt]:
    """Return the results that were recorded under these leases: reading resolves a COMMIT whose answer was lost."""
    by_fence = {lease.fence: lease for lease in leases}
    events = TaskEvent.objects.using(database(backend)).filter(task_id__in=[lease.id for lease in leases])
    receipts: dict[Fence, Receipt] = {}
    for event in events.filter(kind__in=REPORTED):
        fence = (event.task_id, event.actor, event.attempt)
        if fence in by_fence:
            if event.kind == EventKind.COMPLETED:
                status = Status.SUCCESS
            else:
                status = Status.FAILED if event.data.get("terminal") else Status.PENDING
            receipts[fence] = Receipt(by_fence[fence], status, ts=event.ts, error=event.data.get("error"))
    return receipts


EXPIRED = "expired: it was not started in time"
LATE = "its deadline has passed"
EXPIRED_AT_ONCE = 500  # tasks at once: on SQLite others wait for it, and a supervisor has other work


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
    loss = RecoverRequest(actor, dead, cause or ("worker died" if dead else "lease expired"), crashed, facts or {})
    using = database(backend)
    tasks = Task.objects.using(using)
    with following_up(tasks.leased_to(dead) if dead else tasks.lease_expired(), using) as follow:
        receipts = engine_for(using).recover(loss, limit)
        follow(r.lease.id for r in receipts if r.final_status is not None)
    wake_later(keys_of({r.lease.batch for r in receipts if r.lease.batch and r.final_status is not None}), using)
    return receipts


def expire(*, backend: str = "default", actor: str = "queue", limit: int = EXPIRED_AT_ONCE) -> list[UUID]:
    """Cancel tasks past their deadline, and those that nobody began in time, the oldest first.

    Claims leave them alone, whether or not this ran.
    """
    using = database(backend)
    engine, order = engine_for(using), Cancellation(using, actor, LATE, notify_cancelled)
    late = cancel_free(engine.late(limit), wait=False, order=order)
    expired = engine.expire(actor, EXPIRED, limit)
    for ended, reason in ((late, LATE), (expired, EXPIRED)):
        if ended:
            cancel_below(ended, order._replace(reason=reason))
            wake_waiters(ended, using)
    return [*late, *expired]


class PendingMaintenance(NamedTuple):
    lost: bool = False  # leases have expired
    expired: bool = False  # tasks have expired before their first attempt began
    waiting: bool = False  # tasks wait for a batch or a signal
    scheduled: bool = False  # there are schedules, due or not


def find_pending_maintenance(*, backend: str = "default") -> PendingMaintenance:
    return PendingMaintenance(*engine_for(database(backend)).pending_maintenance())
