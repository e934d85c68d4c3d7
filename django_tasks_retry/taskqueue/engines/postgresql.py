"""PostgreSQL: every verb is one statement."""

import json
import re
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID
from zlib import crc32

from django.db import IntegrityError, connections, transaction
from django.db.models.base import ModelState

from ...guard.abilities import abilities_of
from ...models import FlowLimit, Task, TaskResult
from ...models.limits import label_of, split
from ...rules.failure import LOST
from ...rules.payload import dump
from ...rules.status import Status
from ...rules.transitions import KEPT
from ..database import AsTexts, as_array, as_moment, fetch_any
from ..events import cancellation
from ..lease import COLUMNS as LEASE_COLUMNS
from ..lease import Claimed, Fence, Lease, lease_header, read_claimed, read_lease
from ..reading import set_aside
from ..report import LOST_FINGERPRINT, Receipt, Report
from .base import ClaimRequest, RecoverRequest, Written
from .postgresql_rows import PostgreSQLInsert, any_parameters, are_plain, examples, plain_parameters
from .ranges import TRUE, ClaimRange, Cursors, DuePage, LaneRange, read_lane_range
from .statements import StoredStatement, files_of, like_table, like_task, prepared

LANES = StoredStatement("lanes", {
    **like_task(["queue"]), "priority": "int", "eta": "timestamptz", "now": "timestamptz", "has_keyed": "bool",
    "states": "text[]",
})  # fmt: skip
KEYED_LANES = StoredStatement("keyed_lanes", {
    **like_task(["queue", "priority", "lane", "eta"]), "hop": "int", "now": "timestamptz",
    **dict.fromkeys(("is_due", "has_row", "is_paused"), "bool"), **like_table(FlowLimit, ["weight"]),
})  # fmt: skip
# By whether the lanes have keys, and whether one task alone is wanted.
CLAIM = {
    (keyed, one): StoredStatement(f"claim{'_keyed' * keyed}{'_one' * one}", like_task(LEASE_COLUMNS))
    for keyed in (True, False)
    for one in (True, False)
}
FINISHED = {"n": "bigint", "eta": "timestamptz", "ts": "timestamptz"}
FINISH = StoredStatement("finish", FINISHED)
FINISH_REPEATING = StoredStatement("finish_repeating", FINISHED)
FINISH_WAITING = StoredStatement("finish_waiting", FINISHED)
COMPLETE = StoredStatement("complete", {"accepted": "bigint[]", "ts": "timestamptz"})
PENDING_MAINTENANCE = StoredStatement(
    "pending_maintenance", dict.fromkeys(("lost", "expired", "waiting", "scheduled"), "bool")
)
LIMIT_COLUMNS = (
    "id", "kind", "name", "running", "starts", "per", "weight", "paused_at", "probe_at", "probing_since", "counts_from",
    "created_at", "recent", "locked_at",
)  # fmt: skip
REMEMBER = StoredStatement("remember", {"ts": "timestamptz"})
LOCK_LIMITS = StoredStatement("lock_limits", like_table(FlowLimit, LIMIT_COLUMNS[:-1]) | {"locked_at": "timestamptz"})
COUNT_LEASES = StoredStatement("count_leases", {"kind": "text", "name": "text", "count": "bigint"})
RESULT_KEY = re.compile(rf'"{TaskResult._meta.db_table}(_\w+)?_pkey"')
"""The primary key of the table, or of one of its partitions."""


class PostgreSQL(PostgreSQLInsert):
    def past_strays(self, statement: Callable[[], list[tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
        """Run a statement; if a result was left beside a running task, clear it and run again for the whole batch."""
        try:
            return statement()
        except IntegrityError as error:
            if not RESULT_KEY.search(str(error)) or connections[self.using].in_atomic_block:
                raise
        self.clear_strays()
        return statement()

    def clear_strays(self) -> None:
        self.fetch("clear_strays")

    def statements(self) -> dict[str, str]:
        return {name: prepared(name, text) for name, text in sorted((files_of("postgresql") | examples()).items())}

    def due_ranges(self, after: tuple[str, int], most: int) -> DuePage:
        rows = self.call(LANES, {"queue": after[0], "priority": after[1], "most": most})
        ranges = [
            ClaimRange(queue, int(priority), eta, as_moment(now)) for queue, priority, eta, now, *_ in rows if queue
        ]
        [(*_, has_lanes, limited)] = [row for row in rows if not row[0]]
        return DuePage(ranges, has_lanes in TRUE, frozenset(limited or ()))

    def lane_ranges(self, cursors: Cursors, hops: int, fresh: float) -> list[LaneRange]:
        parameters = {
            "cursor_queues": as_array([queue for queue, _ in cursors]),
            "cursor_priorities": as_array([priority for _, priority in cursors]),
            "cursor_keys": as_array(list(cursors.values())),
            "hops": hops,
            "fresh": fresh,
        }
        return [read_lane_range(row) for row in self.call(KEYED_LANES, parameters)]

    def claim(self, ranges: Sequence[ClaimRange], limit: int, terms: ClaimRequest) -> Claimed:
        parameters = {
            "queues": as_array([each.queue for each in ranges]),
            "priorities": as_array([each.priority for each in ranges]),
            "floor_etas": as_array([each.floor_eta for each in ranges]),
            "floor_ids": as_array([each.floor_id for each in ranges]),
            "limit": limit,
            "known": as_array(terms.known),
            "held": as_array(terms.held),
            "backend": terms.backend,
            "worker": terms.worker_id,
            "lease": terms.seconds,
            "only": terms.only,
            "places": terms.places if abilities_of(self.using).advisory_locks else 0,
            "head": head_of(ranges[0]),
        }
        keyed = bool(ranges[0].lane)
        if keyed:
            quotas = [limit if each.quota is None else each.quota for each in ranges]
            parameters |= {
                "keys": as_array([each.lane for each in ranges]),
                "quotas": as_array(quotas),
                "singles": as_array([each.only for each in ranges]),
            }
        rows = self.call(CLAIM[keyed, terms.only is not None], parameters)
        if rows and rows[0][0] is None:
            return Claimed(turned_away=True)
        return read_claimed(rows, read_lease)

    def lock_limits(self, labels: Collection[str]) -> list[FlowLimit]:
        rows = self.call(LOCK_LIMITS, by_kind(labels))
        return [state for row in rows if (state := read_limit(row, self.using))]

    def count_leases(self, labels: Collection[str]) -> dict[str, int]:
        return {label_of(kind, name): count for kind, name, count in self.call(COUNT_LEASES, by_kind(labels))}

    def record(self, reports: Sequence[Report], *, wait: bool = False) -> dict[int, Written]:
        if not wait and are_plain(reports):
            return self.complete(reports)
        repeats = any(report.next_id for report in reports)
        statement = FINISH_WAITING if wait else FINISH_REPEATING if repeats else FINISH
        parameters = any_parameters(reports)
        return {n: Written(eta, ts) for n, eta, ts in self.past_strays(lambda: self.call(statement, parameters))}

    def complete(self, reports: Sequence[Report]) -> dict[int, Written]:
        parameters = plain_parameters(reports)
        [(accepted, ts)] = self.past_strays(lambda: self.call(COMPLETE, parameters))
        return {n: Written(reports[n].lease.eta, ts) for n in accepted or ()}

    def renew(self, leases: Sequence[Lease], seconds: float, actor: str | None, asked: datetime | None) -> set[Fence]:
        # In the order of their ids, so that two that write about the same tasks cannot deadlock.
        leases = sorted(leases, key=lambda lease: lease.id)
        parameters = {
            "id": [lease.id for lease in leases],
            "worker": [lease.locked_by for lease in leases],
            "attempt": [lease.attempts for lease in leases],
            "moved_by": [f"{actor or lease.signature}{KEPT}" for lease in leases],
            "lease": seconds,
        }
        return {(task_id, worker, attempt) for task_id, worker, attempt in self.fetch("renew", parameters)}

    def renew_workers(
        self,
        worker_ids: Sequence[str],
        seconds: float,
        actor: str,
        known: Collection[UUID] | None,
        asked: datetime | None,
    ) -> set[UUID]:
        parameters = {
            "workers": list(worker_ids),
            "known": None if known is None else list(known),
            "lease": seconds,
            "moved_by": f"{actor}{KEPT}",
        }
        return {row[0] for row in self.fetch("renew_workers", parameters)}

    def excludes_writers(self, error: BaseException | None) -> bool:
        return bool(self.fetch("excludes_writers", {"table": Task._meta.db_table})[0][0])

    def recover(self, loss: RecoverRequest, limit: int) -> list[Receipt]:
        parameters = {
            "actor": loss.actor,
            "dead": loss.dead,
            "cause": loss.cause,
            "crashed": loss.crashed,
            "facts": dump(loss.facts),
            "limit": limit,
            "failure": dump(LOST.as_dict()),
            "fingerprint": LOST_FINGERPRINT,
        }
        sql = self.sql["recover"]
        return [
            Receipt(lease, Status(status), lease.eta, as_moment(ts), error and json.loads(error), cause=loss.cause)
            for status, ts, error, *columns in self.past_strays(lambda: fetch_any(sql, parameters, self.using))
            for lease in [lease_header(columns)]
        ]

    def cancel(self, ids: Sequence[UUID], actor: str, reason: str, *, wait: bool) -> dict[UUID, bool]:
        error, data = dump(cancellation(actor, reason)), dump({"reason": reason})
        parameters = {"ids": list(ids), "actor": actor, "error": error, "data": data}
        return dict(self.fetch("cancel_waiting" if wait else "cancel", parameters))

    def remember(self, lease: Lease, name: str, kind: str, result: str) -> datetime | None:
        fence = {"id": lease.id, "worker": lease.locked_by, "attempt": lease.attempts}
        # JSON's null is SQL's NULL, as the ORM writes it.
        step = {"name": name, "kind": str(kind), "result": None if result == "null" else result}
        return next((row[0] for row in self.call(REMEMBER, fence | step)), None)

    def pending_maintenance(self) -> Sequence[bool]:
        return self.call(PENDING_MAINTENANCE, {})[0]

    def expire(self, actor: str, reason: str, limit: int) -> list[UUID]:
        error, data = dump(cancellation(actor, reason)), dump({"reason": reason})
        return [row[0] for row in self.fetch("expire", {"limit": limit, "actor": actor, "error": error, "data": data})]

    def prune(self, ids: Sequence[UUID], backend: str) -> tuple[int, Sequence[UUID]]:
        with transaction.atomic(using=self.using):
            [[done, members]] = self.fetch("prune", {"ids": as_array(ids), "backend": backend})
        return done, members

    def export(self, ids: Sequence[UUID]) -> list[str]:
        return [row[-1] for row in fetch_any(self.sql["export"], {"ids": as_array(ids), "size": len(ids)}, self.using)]


def by_kind(labels: Collection[str]) -> dict[str, str]:
    kinds, names = zip(*map(split, labels), strict=True)
    return {"kinds": as_array(kinds), "names": as_array(names)}


def read_limit(row: tuple[Any, ...], using: str) -> FlowLimit | None:
    """The row as our model, as a whole: column by column takes Django five times as long."""
    values = dict(zip(LIMIT_COLUMNS, row, strict=True))
    if isinstance(row, AsTexts):
        set_aside(label_of(values["kind"], values["name"]), row.reason)
        return None
    values["recent"] = FlowLimit._meta.get_field("recent").from_db_value(values["recent"], None, connections[using])
    state, values["_state"] = FlowLimit.__new__(FlowLimit), ModelState()
    state.__dict__ = values
    state._state.adding, state._state.db = False, using
    return state


def head_of(first: ClaimRange) -> int:
    """Return the head of a range as the first half of an advisory lock. Two that share a number share their places."""
    return crc32(f"{first.queue} {first.priority}".encode()) - 2**31
