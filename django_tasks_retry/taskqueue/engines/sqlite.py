"""SQLite: the same rules under the write lock, which lets one writer in at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import BooleanField, CharField, F, Q, Value
from django.db.models.expressions import RawSQL
from django.db.models.functions import Cast, Coalesce, Concat, Greatest

from ...clock import Now, frozen, now
from ...instants import InstantField
from ...models import LaneState, Queue, Task, TaskEvent, TaskResult
from ...models.lanes import LANE
from ...querysets import TaskQuerySet
from ...rules.failure import LOST
from ...rules.status import Status
from ...rules.transitions import CANCEL_PENDING, CANCEL_RUNNING, CLAIM, KEPT, LOSE, LOSE_FOR_GOOD
from ..consumer.lanes import FIRST_LANE, LANES_A_PAGE, Cursors, DueLanes, KeyedLane, Lane, read_keyed
from ..consumer.receipts import Receipt
from ..consumer.report import LOST_FINGERPRINT, Report, error_record
from ..database import as_moment, fetch, fetch_stored, run
from ..events import cancellation, events_of, result_of, write_events
from ..lease import (
    COLUMNS,
    EARLIEST,
    LEAN_COLUMNS,
    MOMENTS,
    Claimed,
    Fence,
    Lease,
    as_uuid,
    kept_by,
    lean_lease,
    leased_by,
    read_claimed,
    read_lease,
    read_or,
)
from ..producer.new_tasks import LAST_YEAR, as_dated, key_of
from .base import Loss, Moved, Terms
from .sqlite_moves import AcceptedReport, Held, accept, claimed
from .sqlite_rows import write_rows
from .statements import read_sql
from .workflows import SQLiteWorkflows

LANES, KEYED_LANES = read_sql("lanes_sqlite"), read_sql("keyed_lanes_sqlite")
HAS_KEYED = "SELECT EXISTS (SELECT 1 FROM django_tasks_retry_task WHERE status = 'PENDING' AND lane > '')"
# The operator ->> of the other engine is known to SQLite only from 3.38 on.
ERROR = {name: f"json_extract(task.last_error, '$.{name}')" for name in ("exception", "code", "message")}
SHOWN = "SELECT key, value FROM json_each(%(shown)s)"
DEPTHS = [
    read_sql("depths", collect="json_group_array", in_lane=in_lane, only="")
    for in_lane in ("t.lane = ''", "length(t.lane) > 0")
]
FAILURES, FAILED_SINCE = read_sql("failures", shown=SHOWN, **ERROR), read_sql("failed_since", shown=SHOWN)
CANCEL_COLUMNS = ("pk", "attempts", "locked_by", "last_attempt_at")
"""What cancelling has to know. Whatever else a row holds, even what cannot be decoded, does not stand in its way."""

TABLE = Task._meta.db_table
ESTIMATE = f"SELECT (SELECT max(rowid) FROM {TABLE}) - (SELECT min(rowid) FROM {TABLE}) + 1"  # noqa: S608
# SQLite takes a partial index only where its condition stands in the question word for word, not as parameters.
AGES = timedelta(days=36524)
PAGE = 500
"""Ids in one question: an old SQLite takes 999 parameters."""
AS_IN_THE_INDEX = RawSQL("status IN ('PENDING', 'RUNNING')", [], BooleanField())
EXPIRED = read_sql("expired_sqlite")
DUTIES = read_sql("duties")


class SQLite(SQLiteWorkflows):
    can_notify = False

    def __init__(self, using: str) -> None:
        self.using = using

    @property
    def tasks(self) -> TaskQuerySet:
        tasks: TaskQuerySet = Task.objects.using(self.using)
        return tasks

    @contextmanager
    def writing(self) -> Iterator[datetime]:
        """The write lock, and one reading of the clock for all that is done inside."""
        with transaction.atomic(using=self.using), frozen():
            yield now(self.using)

    # New tasks

    def writes_at_once(self, tasks: Sequence[Task]) -> bool:
        return False

    def insert(self, tasks: Sequence[Task]) -> list[Task]:
        """Runs under the write lock, so a key that is free now stays free."""
        moment, fresh = now(self.using), []
        taken = {key_of(holder) for holder in self.holders([task for task in tasks if task.unique_key])}
        for task in tasks:
            if task.unique_key and key_of(task) in taken:
                continue
            taken.add(key_of(task))
            fresh.append(as_dated(task, moment, self.using))
        write_rows(fresh, self.using)
        return fresh

    def insert_each(self, chunks: Iterable[Sequence[Task]]) -> Iterator[list[Task]]:
        return map(self.insert, chunks)

    def holders(self, tasks: Sequence[Task]) -> Iterable[Task]:
        queues, keys = {task.queue for task in tasks}, {task.unique_key for task in tasks}
        return self.tasks.filter(AS_IN_THE_INDEX, queue__in=queues, unique_key__in=keys)

    def lock_key(self, queue: str, key: str) -> None:
        """Whoever writes has the one write lock."""

    # Claims

    def due_lanes(self, after: tuple[str, int] = FIRST_LANE) -> DueLanes:
        long_ago = now(self.using) - AGES
        rows = sorted(row for row in fetch(LANES, None, self.using) if row[:2] > after)
        lanes = [
            Lane(queue, priority, read_or(long_ago, floor_of, eta), as_moment(moment))
            for queue, priority, eta, moment in rows[:LANES_A_PAGE]
        ]
        states = LaneState.objects.using(self.using).exclude(kind=LANE)
        return DueLanes(lanes, bool(fetch(HAS_KEYED, None, self.using)[0][0]), frozenset(map(str, states)))

    def keyed_lanes(self, cursors: Cursors, hops: int) -> list[KeyedLane]:
        """All of them: a file that one process writes at a time does not hold hundreds of thousands."""
        long_ago = now(self.using) - AGES
        return [
            read_keyed([*row[:3], read_or(long_ago, floor_of, row[3]), *row[4:]])
            for row in fetch(KEYED_LANES, None, self.using)
        ]

    def claim(self, lanes: Sequence[Lane], limit: int, terms: Terms) -> Claimed:
        with self.writing() as moment:
            expires = moment + timedelta(seconds=terms.seconds)
            rows: list[list[Any]] = []
            for lane in lanes:
                room = limit - len(rows)
                rows += self.due_in(lane, terms, room if lane.quota is None else min(room, lane.quota))
            rows = [claimed(row, terms.worker_id, expires, moment) for row in rows]
            attempt = F("attempts") + CLAIM.attempts
            self.tasks.filter(pk__in=[row[0] for row in rows]).update(
                status=CLAIM.target,
                attempts=attempt,
                locked_by=terms.worker_id,
                lock_expires_at=expires,
                moved_by=Concat(Value(f"{terms.worker_id}:"), Cast(attempt, CharField()), Value(KEPT)),
                started_at=Coalesce(F("started_at"), Value(moment, InstantField())),
                last_attempt_at=moment,
                waits_for=None,
                updated_at=moment,
            )
            taken = read_claimed(rows, self.read_lease)
            events = [e for lease in taken.everything for e in events_of(CLAIM, lease, terms.worker_id, moment)]
            write_rows(events, self.using)
        return taken

    def due_in(self, lane: Lane, terms: Terms, limit: int) -> list[list[Any]]:
        due = self.tasks.due().filter(queue=lane.queue, priority=lane.priority, backend=terms.backend)
        due = due.filter(lane=lane.key, lane__gt="") if lane.key else due.filter(lane="")
        due = due if lane.only == EARLIEST else due.filter(pk=lane.only)
        above = due.filter(Q(eta__gt=lane.floor_eta) | Q(id__gte=lane.floor_id), eta__gte=lane.floor_eta)
        unpaused = above.exclude(queue__in=Queue.objects.paused().values("name"))
        known = self.unheld(lane, terms)
        wanted = unpaused.filter(func_path__in=known).may_begin(terms.only).order_by("eta", "id")[:limit]
        return [list(row) for row in fetch_stored(wanted, COLUMNS, self.using) if is_uuid(row[0])]

    def unheld(self, lane: Lane, terms: Terms) -> list[str]:
        """The functions that may be claimed: none where the lane or its queue has a row that is not held."""
        states = LaneState.objects.using(self.using)
        if not states.exists():
            return list(terms.known)
        rows = {f"{kind}:{name}" for kind, name in states.exclude(kind=LANE).values_list("kind", "name")}
        rows |= {f"{LANE}:{lane.key}"} if states.filter(kind=LANE, name=lane.key).exists() else set()
        unheld = rows - set(terms.held)
        if not unheld.isdisjoint({f"{LANE}:{lane.key}", f"queue:{lane.queue}"}):
            return []
        return [path for path in terms.known if f"function:{path}" not in unheld]

    def read_lease(self, row: Sequence[Any]) -> Lease:
        values = dict(zip(COLUMNS, row, strict=True))
        for name in ("id", "run_id"):
            values[name] = as_uuid(values[name])
        for name in MOMENTS:
            values[name] = as_moment(values[name])
        values["slot"] = values["slot"] and as_moment(values["slot"])
        values["batch"] = values["batch"] and as_uuid(values["batch"])
        return read_lease(list(values.values()))

    # Reports

    def record(self, reports: Sequence[Report], *, wait: bool = False) -> dict[int, Moved]:
        """Nobody can lock a row, so there is nothing to pass over."""
        with self.writing() as moment:
            accepted = accept(reports, self.held([report.lease.id for report in reports]), moment)
            # The results first: the guard wants to see them when the tasks finish.
            self.write_results(accepted)
            self.complete([each for each in accepted if each.is_completion], moment)
            self.move([each for each in accepted if not each.is_completion])
            write_rows([event for each in accepted for event in each.events], self.using)
            self.repeat(accepted)
        return {each.place: Moved(each.eta, moment) for each in accepted}

    def held(self, ids: Sequence[UUID]) -> dict[UUID, Held]:
        pages = (ids[start : start + PAGE] for start in range(0, len(ids), PAGE))
        rows = (row for page in pages for row in self.tasks.filter(pk__in=page).values_list(*Held._fields))
        return {row[0]: Held(*row) for row in rows}

    def write_results(self, accepted: Sequence[AcceptedReport]) -> None:
        write_rows([each.result for each in accepted if each.report.is_final], self.using)

    def complete(self, accepted: Sequence[AcceptedReport], moment: datetime) -> None:
        """The usual end, in one statement for all who state the same lease; the guard compares it with each row."""
        for signature in {each.report.moved_by for each in accepted}:
            ids = [each.task.id for each in accepted if each.report.moved_by == signature]
            self.tasks.filter(pk__in=ids).update(
                status=Status.SUCCESS,
                moved_by=signature,
                locked_by=None,
                lock_expires_at=None,
                updated_at=moment,
                finished_at=moment,
            )

    def move(self, accepted: Sequence[AcceptedReport]) -> None:
        for each in accepted:
            self.tasks.filter(pk=each.task.id).update(**each.changes)

    def repeat(self, accepted: Sequence[AcceptedReport]) -> None:
        repeating = {each.task.id: each for each in accepted if each.report.next_id}
        tasks = self.tasks.in_bulk(repeating) if repeating else {}
        occurrences = [each.next_occurrence(tasks[pk]) for pk, each in repeating.items()]
        following = [task for task in occurrences if task.eta.year < LAST_YEAR]
        if following:
            self.insert(following)

    # Leases

    def renew(self, leases: Sequence[Lease], seconds: float, actor: str | None) -> set[Fence]:
        with self.writing() as moment:
            expiry = extended(moment, seconds)
            return {
                lease.fence
                for lease in leases
                if leased_by(lease).update(lock_expires_at=expiry, moved_by=kept_by(actor or lease.signature))
            }

    def renew_workers(
        self, worker_ids: Sequence[str], seconds: float, actor: str, known: Collection[UUID] | None
    ) -> set[UUID]:
        with self.writing() as moment:
            leased = self.tasks.running().filter(locked_by__in=worker_ids, lock_expires_at__gt=Now())
            if known is not None:
                leased = leased.filter(pk__in=known)
            ids = set(leased.values_list("pk", flat=True))
            leased.filter(pk__in=ids).update(lock_expires_at=extended(moment, seconds), moved_by=kept_by(actor))
        return ids

    def recover(self, loss: Loss, limit: int) -> list[Receipt]:
        with self.writing() as moment:
            running = self.tasks.running()
            lost = running.filter(locked_by=loss.dead) if loss.dead else running.lease_expired()
            rows = fetch_stored(lost.order_by("locked_by", "pk")[:limit], LEAN_COLUMNS, self.using)
            return [self.recover_one(lean_lease(row), loss, moment) for row in rows if is_uuid(row[0])]

    def recover_one(self, task: Lease, loss: Loss, moment: datetime) -> Receipt:
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

    def duties(self) -> Sequence[bool]:
        return [bool(there_is) for there_is in fetch(DUTIES, None, self.using)[0]]

    def expire(self, actor: str, reason: str, limit: int) -> list[UUID]:
        with self.writing():
            ids = [as_uuid(row[0]) for row in fetch(EXPIRED, {"limit": limit}, self.using) if is_uuid(row[0])]
            return list(self.cancel(ids, actor, reason, wait=True)) if ids else []

    # Summaries and wake-ups

    def prune(self, ids: Sequence[UUID], backend: str) -> tuple[int, Sequence[UUID]]:
        return 0, ids

    def depths(self, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [row for sql in DEPTHS for row in run(sql, parameters, self.using)]

    def failure_groups(self, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        return run(FAILURES, parameters, self.using)

    def failed_since(self, parameters: Mapping[str, Any]) -> int:
        return int(fetch(FAILED_SINCE, parameters, self.using)[0][0])

    def estimate_failures(self) -> dict[str, int]:
        return {}

    def estimate_tasks(self) -> int:
        return int(fetch(ESTIMATE, None, self.using)[0][0])

    def horizon_holder(self) -> dict[str, Any] | None:
        return None

    def last_event_id(self) -> int:
        return TaskEvent.objects.using(self.using).order_by("-pk").values_list("pk", flat=True).first() or 0

    def notify(self, channel: str, messages: Sequence[str]) -> None:
        """Nobody can listen: workers poll."""


def extended(moment: datetime, seconds: float) -> Greatest:
    """The expiry of a renewed lease, never earlier than it was."""
    return Greatest(F("lock_expires_at"), Value(moment + timedelta(seconds=seconds), InstantField()))


def floor_of(eta: Any) -> datetime:
    """A little below: as a text, a time without microseconds sorts before the same one with them."""
    return as_moment(eta) - timedelta(seconds=1)


def is_uuid(value: Any) -> bool:
    """SQLite would store any text as an id; what is none cannot even be named, and stays where it is."""
    return read_or(None, as_uuid, value) is not None
