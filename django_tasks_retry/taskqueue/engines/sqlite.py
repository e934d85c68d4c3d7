"""SQLite: the same rules under the write lock, which lets one writer in at a time."""

import json
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.checks import CheckMessage
from django.core.serializers.json import DjangoJSONEncoder
from django.db import OperationalError, connections, transaction
from django.db.models import F, Max, QuerySet, Value
from django.db.models.functions import Coalesce, Greatest

from ...clock import Now, frozen, now
from ...conf import message
from ...models import Step, TaskEvent, TaskResult
from ...rules.failure import LOST
from ...rules.status import Status
from ...rules.transitions import CANCEL_PENDING, CANCEL_RUNNING, LOSE, LOSE_FOR_GOOD
from ...utc import InstantField
from ..database import fetch, fetch_stored, is_busy
from ..events import cancellation, events_of, result_of, write_events
from ..lease import HEADER_COLUMNS, Fence, Lease, as_uuid, is_uuid, kept_by, lease_header, leased_by
from ..report import LOST_FINGERPRINT, Receipt, error_record
from .base import RecoverRequest
from .sqlite_leases import SQLiteLeases
from .sqlite_rows import read_whole
from .statements import GIVEN, SQL, files_of

CANCEL_COLUMNS = ("pk", "attempts", "locked_by", "last_attempt_at")
"""Columns that cancelling needs. Others may hold anything, even what cannot be decoded."""

MOST_COUNTED = 1_000_000  # rows that are counted, since SQLite keeps no statistics that would tell
ESTIMATE = "SELECT coalesce((SELECT max(rowid) FROM {0}) - (SELECT min(rowid) FROM {0}) + 1, 0)"
TURN_SECONDS = 0.05
SQLITE_STEPS = 10_000  # steps of SQLite's machine between two readings of the clock


class WriteLockWait:
    """Waits for the write lock in turns of 50 ms, each of which asks six times.

    SQLite asks ever less often, in the end every 0.1 s, so that whoever comes later overtakes: in one second 18 times.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:  # noqa: FBT001
        give_up_at = time.monotonic() + self.seconds
        while True:
            try:
                return execute(sql, params, many, context)
            except OperationalError as error:
                # Inside a transaction the lock is held, or cannot be had any more.
                if context["connection"].in_atomic_block or not is_busy(error) or time.monotonic() >= give_up_at:
                    raise


class SQLite(SQLiteLeases):
    can_notify = can_partition = has_server = has_row_locks = False
    sql = SQL["sqlite"]

    def __init__(self, using: str) -> None:
        self.using = using

    def statements(self) -> dict[str, str]:
        return {name: GIVEN.sub(r":\1", text).replace("%%", "%") + ";" for name, text in files_of("sqlite").items()}

    def as_list(self, values: Sequence[str]) -> str:
        return json.dumps(values)

    def identity(self) -> str:
        return str(Path(connections[self.using].settings_dict["NAME"]).resolve())

    def limit_session(self, lock_seconds: float) -> None:
        connection = connections[self.using]
        wrappers = [each for each in connection.execute_wrappers if not isinstance(each, WriteLockWait)]
        connection.execute_wrappers = [*wrappers, WriteLockWait(lock_seconds)]
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA busy_timeout = {round(min(TURN_SECONDS, lock_seconds) * 1000)}")

    def limit_locks(self, seconds: float) -> None:
        """Nothing: there is one lock, and the session says how long it waits for that."""

    @contextmanager
    def limit_statements(self, seconds: float, whole: float) -> Iterator[None]:
        """No transaction: with BEGIN IMMEDIATE a page that only reads would keep all writers waiting."""
        connections[self.using].ensure_connection()
        connection: Any = connections[self.using].connection
        deadline = time.monotonic() + whole
        connection.set_progress_handler(lambda: time.monotonic() > deadline, SQLITE_STEPS)
        try:
            yield
        finally:
            connection.set_progress_handler(None, 0)

    def check_settings(self) -> list[CheckMessage]:
        if connections[self.using].settings_dict["OPTIONS"].get("transaction_mode") == "IMMEDIATE":
            return []
        text = f"Database {self.using!r} begins its transactions deferred: workers will meet 'database is locked'."
        return [message("W001", text, f"Set DATABASES[{self.using!r}]['OPTIONS']['transaction_mode'] = 'IMMEDIATE'.")]

    # Leases

    @contextmanager
    def renewing(self, seconds: float, asked: datetime | None) -> Iterator[Greatest]:
        """The write lock, the new expiry, and inside the clock as it was when the renewal was asked."""
        with transaction.atomic(using=self.using):
            moment = now(self.using)
            with frozen(asked or moment):
                yield extended(moment, seconds)

    def renew(self, leases: Sequence[Lease], seconds: float, actor: str | None, asked: datetime | None) -> set[Fence]:
        with self.renewing(seconds, asked) as expiry:
            return {
                lease.fence
                for lease in leases
                if leased_by(lease).update(lock_expires_at=expiry, moved_by=kept_by(actor or lease.signature))
            }

    def renew_workers(
        self,
        worker_ids: Sequence[str],
        seconds: float,
        actor: str,
        known: Collection[UUID] | None,
        asked: datetime | None,
    ) -> set[UUID]:
        with self.renewing(seconds, asked) as expiry:
            leased = self.tasks.running().filter(locked_by__in=worker_ids, lock_expires_at__gt=Now())
            if known is not None:
                leased = leased.filter(pk__in=known)
            ids = set(leased.values_list("pk", flat=True))
            leased.filter(pk__in=ids).update(lock_expires_at=expiry, moved_by=kept_by(actor))
        return ids

    def excludes_writers(self, error: BaseException | None) -> bool:
        return is_busy(error)

    def recover(self, loss: RecoverRequest, limit: int) -> list[Receipt]:
        with self.writing() as moment:
            running = self.tasks.running()
            lost = running.filter(locked_by=loss.dead) if loss.dead else running.lease_expired()
            rows = fetch_stored(lost.order_by("locked_by", "pk")[:limit], HEADER_COLUMNS, self.using)
            return [self.recover_one(lease_header(row), loss, moment) for row in rows if is_uuid(row[0])]

    def recover_one(self, task: Lease, loss: RecoverRequest, moment: datetime) -> Receipt:
        move = LOSE if task.spent < task.max_attempts else LOSE_FOR_GOOD
        changes: dict[str, Any] = {"status": move.target, "locked_by": None, "lock_expires_at": None}
        error = None
        if move is LOSE_FOR_GOOD:
            error = error_record(LOST, task) | {"ts": moment.isoformat(), "next_eta": None}
            changes |= {"finished_at": moment, "last_error": error, "fingerprint": LOST_FINGERPRINT}
            result_of(task, move.target, moment, error=error).save(using=self.using, force_insert=True)
        elif loss.crashed:
            changes["crashes"] = Coalesce(F("crashes"), 0) + 1
        self.tasks.filter(pk=task.id).update(**changes, moved_by=loss.actor, updated_at=moment)
        data = (
            {"cause": loss.cause, "worker": task.locked_by, **loss.facts},
            {"terminal": True, "error": LOST.as_dict()},
        )
        write_events(events_of(move, task, loss.actor, moment, *data[: len(move.events)]), self.using)
        return Receipt(task, move.target, task.eta, moment, error, cause=loss.cause)

    def cancel(self, ids: Sequence[UUID], actor: str, reason: str, *, wait: bool) -> dict[UUID, bool]:
        with self.writing() as moment:
            tasks = list(self.tasks.unfinished().only(*CANCEL_COLUMNS).filter(pk__in=ids).order_by("pk"))
            error = cancellation(actor, reason)
            TaskResult.objects.using(self.using).bulk_create(
                [result_of(task, Status.CANCELLED, moment, error=error) for task in tasks]
            )
            self.tasks.filter(pk__in=[task.pk for task in tasks]).update(
                status=Status.CANCELLED,
                locked_by=None,
                lock_expires_at=None,
                moved_by=actor,
                updated_at=moment,
                finished_at=moment,
            )
            moves = [(CANCEL_RUNNING if task.locked_by else CANCEL_PENDING, task) for task in tasks]
            data = {"reason": reason}
            write_events([e for move, task in moves for e in events_of(move, task, actor, moment, data)], self.using)
        return {task.pk: task.locked_by is not None for task in tasks}

    def remember(self, lease: Lease, name: str, kind: str, result: str) -> datetime | None:
        with transaction.atomic(using=self.using), frozen():
            if not leased_by(lease).exists():
                return None
            step = Step.objects.using(self.using).create(
                task_id=lease.id, name=name, kind=kind, attempt=lease.attempts, actor=lease.locked_by,
                ts=now(self.using), result=json.loads(result),
            )  # fmt: skip
        moment: datetime = step.ts
        return moment

    def pending_maintenance(self) -> Sequence[bool]:
        return [bool(there_is) for there_is in self.fetch("pending_maintenance")[0]]

    def expire(self, actor: str, reason: str, limit: int) -> list[UUID]:
        with self.writing():
            ids = [as_uuid(row[0]) for row in self.fetch("expired", {"limit": limit}) if is_uuid(row[0])]
            return list(self.cancel(ids, actor, reason, wait=True)) if ids else []

    # Summaries and wake-ups

    def prune(self, ids: Sequence[UUID], backend: str) -> tuple[int, Sequence[UUID]]:
        return 0, ids

    def export(self, ids: Sequence[UUID]) -> list[str]:
        return [json.dumps(each, cls=DjangoJSONEncoder) for each in read_whole(ids, self.using)]

    def estimate_failures(self) -> dict[str, int]:
        return {}

    def estimate_rows(self, table: str) -> int:
        quoted = connections[self.using].ops.quote_name(table)
        return int(fetch(ESTIMATE.format(quoted), None, self.using)[0][0])

    def estimate_count(self, tasks: QuerySet[Any]) -> int:
        return tasks.order_by().values("pk")[:MOST_COUNTED].count()

    def horizon_holder(self) -> dict[str, Any] | None:
        return None

    def last_event_id(self) -> int:
        return TaskEvent.objects.using(self.using).aggregate(last=Max("pk"))["last"] or 0

    def notify(self, channel: str, messages: Sequence[str]) -> None:
        """Nobody can listen: workers poll."""


def extended(moment: datetime, seconds: float) -> Greatest:
    """The expiry of a renewed lease, never earlier than it was."""
    return Greatest(F("lock_expires_at"), Value(moment + timedelta(seconds=seconds), InstantField()))
