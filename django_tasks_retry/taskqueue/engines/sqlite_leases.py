"""Claims and reports on SQLite: the rules of claim.sql and finish.sql, under the write lock."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connections
from django.db.models import CharField, F, Q, Value
from django.db.models.functions import Cast, Coalesce, Concat

from ...clock import Now, now
from ...models import FlowLimit, Queue, Task, TaskEvent, TaskResult
from ...models.limits import LANE, label_of, split
from ...rules.schedules.timing import next_slot
from ...rules.status import Status
from ...rules.transitions import CLAIM, COMPLETE, KEPT, EventKind
from ...utc import InstantField
from ..database import UNREADABLE, as_moment, fetch, fetch_stored
from ..events import event, events_of, result_of
from ..lease import COLUMNS, EARLIEST, MOMENTS, Claimed, Lease, as_uuid, is_uuid, read_claimed, read_lease, read_or
from ..new_tasks import LAST_YEAR, same_call
from ..reading import set_aside
from ..report import Report
from .base import ClaimRequest, Written
from .ranges import ClaimRange, Cursors, DuePage, LaneRange, read_lane_range
from .sqlite_rows import SQLiteRows, among, write_rows

HAS_KEYED = "SELECT EXISTS (SELECT 1 FROM django_tasks_retry_task WHERE status = 'PENDING' AND length(lane) > 0)"
AGES = timedelta(days=36524)
DATED = {EventKind.REQUEUED, EventKind.RELEASED}  # events that tell when the task is due again


class SQLiteLeases(SQLiteRows):
    def due_ranges(self, after: tuple[str, int], most: int) -> DuePage:
        long_ago = now(self.using) - AGES
        rows = sorted(row for row in self.fetch("lanes") if row[:2] > after)
        ranges = [
            ClaimRange(queue, priority, read_or(long_ago, floor_of, eta), as_moment(moment))
            for queue, priority, eta, moment in rows[:most]
        ]
        limited = FlowLimit.objects.using(self.using).exclude(kind=LANE).only("kind", "name")
        return DuePage(ranges, bool(fetch(HAS_KEYED, None, self.using)[0][0]), frozenset(map(str, limited)))

    def lane_ranges(self, cursors: Cursors, hops: int, fresh: float) -> list[LaneRange]:
        """All of them: a file that one process writes at a time does not hold hundreds of thousands."""
        long_ago = now(self.using) - AGES
        return [
            read_lane_range([*row[:3], read_or(long_ago, floor_of, row[3]), *row[4:]])
            for row in self.fetch("keyed_lanes")
        ]

    def claim(self, ranges: Sequence[ClaimRange], limit: int, terms: ClaimRequest) -> Claimed:
        # Reading keeps nobody waiting, so the write lock is for claims that find something.
        if connections[self.using].get_autocommit() and not any(self.due_in(each, terms, 1) for each in ranges):
            return Claimed()
        with self.writing() as moment:
            expires = moment + timedelta(seconds=terms.seconds)
            rows: list[list[Any]] = []
            for each in ranges:
                room = limit - len(rows)
                rows += self.due_in(each, terms, room if each.quota is None else min(room, each.quota))
            rows = [claimed(row, terms.worker_id, expires, moment) for row in rows]
            attempt = F("attempts") + CLAIM.attempts
            self.tasks.filter(pk__in=among(row[0] for row in rows)).update(
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

    def lock_limits(self, labels: Collection[str]) -> list[FlowLimit]:
        """Read them: the write lock is held already."""
        states = FlowLimit.objects.using(self.using).among(labels).annotate(locked_at=Now())
        try:
            return list(states)
        except UNREADABLE as error:
            if len(labels) > 1:
                return [state for each in labels for state in self.lock_limits([each])]
            set_aside(next(iter(labels)), str(error))
            return []

    def count_leases(self, labels: Collection[str]) -> dict[str, int]:
        rows = self.fetch("count_leases", {"labels": json.dumps([split(label) for label in labels])})
        return {label_of(kind, name): count for kind, name, count in rows}

    def due_in(self, of: ClaimRange, terms: ClaimRequest, limit: int) -> list[list[Any]]:
        due = self.tasks.due().filter(queue=of.queue, priority=of.priority, lane=of.lane, backend=terms.backend)
        due = due if of.only == EARLIEST else due.filter(pk=of.only)
        above = due.filter(Q(eta__gt=of.floor_eta) | Q(id__gte=of.floor_id), eta__gte=of.floor_eta)
        unpaused = above.exclude(queue__in=Queue.objects.paused().values("name"))
        known = self.unheld(of, terms)
        wanted = unpaused.filter(func_path__in=known).may_begin(terms.only).order_by("eta", "id")[:limit]
        return [list(row) for row in fetch_stored(wanted, COLUMNS, self.using) if is_uuid(row[0])]

    def unheld(self, of: ClaimRange, terms: ClaimRequest) -> list[str]:
        """The functions that may be claimed: none if the lane or its queue has a row that is not held."""
        states = FlowLimit.objects.using(self.using)
        if not states.exists():
            return list(terms.known)
        rows = {f"{kind}:{name}" for kind, name in states.exclude(kind=LANE).values_list("kind", "name")}
        if of.lane and states.filter(kind=LANE, name=of.lane).exists():
            rows.add(f"{LANE}:{of.lane}")
        unheld = rows - set(terms.held)
        if not unheld.isdisjoint({f"{LANE}:{of.lane}", f"queue:{of.queue}"}):
            return []
        return [path for path in terms.known if f"function:{path}" not in unheld]

    def read_lease(self, row: Sequence[Any]) -> Lease:
        values = dict(zip(COLUMNS, row, strict=True))
        begins_run, values["id"] = values["run_id"] == values["id"], as_uuid(values["id"])
        values["run_id"] = values["id"] if begins_run else as_uuid(values["run_id"])
        for name in MOMENTS:
            values[name] = as_moment(values[name])
        values["slot"] = values["slot"] and as_moment(values["slot"])
        values["batch"] = values["batch"] and as_uuid(values["batch"])
        return read_lease(list(values.values()))

    # Reports

    def record(self, reports: Sequence[Report], *, wait: bool = False) -> dict[int, Written]:
        """Nobody can lock a row, so there is nothing to pass over."""
        with self.writing() as moment:
            accepted = accept(reports, self.held([report.lease.id for report in reports]), moment)
            # The results first: the guard wants to see them when the tasks finish.
            self.write_results(accepted)
            self.complete([each for each in accepted if each.is_completion], moment)
            self.move([each for each in accepted if not each.is_completion])
            write_rows([event for each in accepted for event in each.events], self.using)
            self.repeat(accepted)
        return {each.place: Written(each.eta, moment) for each in accepted}

    def held(self, ids: Sequence[UUID]) -> dict[UUID, Held]:
        by_text = {each.hex: each for each in ids}
        found = fetch_stored(self.tasks.filter(pk__in=among(by_text)), Held._fields, self.using)
        return {by_text[row[0]]: held_of(by_text[row[0]], *row[1:]) for row in found}

    def write_results(self, accepted: Sequence[AcceptedReport]) -> None:
        write_rows([each.result for each in accepted if each.report.is_final], self.using)

    def complete(self, accepted: Sequence[AcceptedReport], moment: datetime) -> None:
        """The usual end, in one statement for all who state the same lease; the guard compares it with each row."""
        for signature in {each.report.moved_by for each in accepted}:
            ids = (each.task.id.hex for each in accepted if each.report.moved_by == signature)
            self.tasks.filter(pk__in=among(ids)).update(
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


def claimed(row: Sequence[Any], worker_id: str, expires: datetime, moment: datetime) -> list[Any]:
    """A row that was read before it was claimed, as it is afterwards."""
    values = dict(zip(COLUMNS, row, strict=True))
    values |= {
        "attempts": values["attempts"] + CLAIM.attempts,
        "locked_by": worker_id,
        "lock_expires_at": expires,
        "started_at": values["started_at"] or moment,
        "last_attempt_at": moment,
    }
    return list(values.values())


def floor_of(eta: Any) -> datetime:
    """A little below: as a text, a time without microseconds sorts before the same one with them."""
    return as_moment(eta) - timedelta(seconds=1)


class Held(NamedTuple):
    """The columns that a report is checked against. Claims write them, so they can always be read."""

    id: UUID
    locked_by: str | None
    attempts: int
    lock_expires_at: datetime | None
    last_attempt_at: datetime | None


def held_of(task_id: UUID, locked_by: str | None, attempts: int, expires: Any, last_attempt: Any) -> Held:
    return Held(task_id, locked_by, attempts, expires and as_moment(expires), last_attempt and as_moment(last_attempt))


def accept(reports: Sequence[Report], tasks: Mapping[UUID, Held], moment: datetime) -> list[AcceptedReport]:
    """A lease is good for one report: the first that matches it takes the task away from the others."""
    free, accepted = dict(tasks), []
    for place, report in enumerate(reports):
        task, lease = free.get(report.lease.id), report.lease
        if task and (task.locked_by, task.attempts) == (lease.locked_by, lease.attempts) and alive(task, moment):
            accepted.append(AcceptedReport(place, report, free.pop(task.id), moment))
    return accepted


def alive(task: Held, moment: datetime) -> bool:
    return task.lock_expires_at is not None and task.lock_expires_at > moment


class AcceptedReport:
    """One accepted report and everything it writes."""

    def __init__(self, place: int, report: Report, task: Held, moment: datetime) -> None:
        self.place, self.report, self.task, self.moment = place, report, task, moment
        self.eta = report.lease.eta if report.delay is None else moment + timedelta(seconds=report.delay)

    @property
    def is_completion(self) -> bool:
        return self.report.move is COMPLETE

    @property
    def error(self) -> dict[str, Any] | None:
        next_eta = None if self.report.is_final else self.eta.isoformat()
        return self.report.error and {**self.report.error, "ts": self.moment.isoformat(), "next_eta": next_eta}

    @property
    def result(self) -> TaskResult:
        return result_of(self.task, self.report.move.target, self.moment, result=self.report.result, error=self.error)

    @property
    def changes(self) -> dict[str, Any]:
        changes = {
            "status": self.report.move.target,
            "refunds": F("refunds") + self.report.move.refunds,
            "locked_by": None,
            "lock_expires_at": None,
            "moved_by": self.report.moved_by,
            "waits_for": self.report.waits_for,
            "updated_at": self.moment,
        }
        changes |= {"finished_at": self.moment} if self.report.is_final else {"eta": self.eta}
        if self.report.error is not None:
            changes |= {"last_error": self.error, "fingerprint": self.report.fingerprint}
        if not self.report.is_final and (crash := self.report.crash) != 0:
            changes["crashes"] = None if crash is None else Coalesce(F("crashes"), 0) + crash
        return changes

    @property
    def events(self) -> list[TaskEvent]:
        return [
            event(self.report.lease, kind, self.report.actor, self.moment, data | self.dates(kind))
            for kind, data in self.report.events
        ]

    def dates(self, kind: EventKind) -> dict[str, str]:
        return {"eta": self.eta.isoformat()} if kind in DATED else {}

    def next_occurrence(self, task: Task) -> Task:
        slot = next_slot(task.slot or task.eta, task.interval, self.moment)
        return same_call(task, id=self.report.next_id, eta=slot, slot=slot)
