"""PostgreSQL: every verb is one statement."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any
from uuid import UUID
from zlib import crc32

from django.db import IntegrityError, connections, transaction

from ...models import CALL_COLUMNS, Task, TaskEvent, TaskResult
from ...rules.failure import LOST
from ...rules.payload import dump
from ...rules.status import Status
from ...rules.transitions import KEPT, SUSPECT
from ..consumer.lanes import (
    FIRST_LANE,
    FRESH_SECONDS,
    LANES_A_PAGE,
    Cursors,
    DueLanes,
    KeyedLane,
    Lane,
    is_true,
    read_keyed,
)
from ..consumer.receipts import Receipt
from ..consumer.report import LOST_FINGERPRINT, Report
from ..database import as_array, as_moment, fetch, fetch_any, run
from ..events import cancellation
from ..lease import COLUMNS as LEASE_COLUMNS
from ..lease import EARLIEST, LEAN_COLUMNS, Claimed, Fence, Lease, lean_lease, read_claimed, read_lease
from . import finish_parts
from .base import Loss, Moved, Terms
from .functions import Functions, StoredStatement, like_task
from .postgresql_insert import listed
from .postgresql_producer import PostgreSQLProducer
from .statements import read_sql
from .workflows import PostgreSQLWorkflows

COPIED = [name for name in (*CALL_COLUMNS, "queue", "priority") if name != "slot"]
LANE_COLUMNS = {
    **like_task(["queue"]),
    "priority": "int",
    "eta": "timestamptz",
    "now": "timestamptz",
    "has_keyed": "bool",
    "states": "text[]",
}
LANES = StoredStatement("lanes", read_sql("lanes"), LANE_COLUMNS)
KEYED_LANES = read_sql("keyed_lanes")
CLAIMED = {"lease": listed(LEASE_COLUMNS, "t.{}")}
# One lookup in an index for each lane. Asked for together with its queue, all rows of lanes were read for each of them.
IS_FREE = """(
            SELECT 1 FROM django_tasks_retry_lanestate AS s
            WHERE s.kind = 'lane' AND s.name = l.key AND 'lane:' || s.name <> ALL (%(held)s::text[])
        ) IS NULL"""
PLAIN = {"arrays": "", "names": "", "is_free": "TRUE", "in_lane": "t.lane = ''", "quota": "%(limit)s::int"}
KEYED = {
    "arrays": ", %(keys)s::text[], %(quotas)s::int[], %(singles)s::uuid[]",
    "names": ", key, quota, single",
    "is_free": IS_FREE,
    "in_lane": f"t.lane > '' AND t.lane = lane.key AND (lane.single = '{EARLIEST}' OR t.id = lane.single)",
    "quota": "LEAST(lane.quota, %(limit)s::int)",
}
UNSUSPECTED, ONE = f"(t.crashes IS NULL OR t.crashes < {SUSPECT})", "t.id = %(only)s::uuid"
# By whether the lanes have keys, and whether one task alone is wanted.
CLAIM = {
    (keyed, one): StoredStatement(
        f"claim{'_keyed' * keyed}{'_one' * one}",
        read_sql("claim", **CLAIMED, **(KEYED if keyed else PLAIN), whom=ONE if one else UNSUSPECTED),
        like_task(LEASE_COLUMNS),
    )
    for keyed in (True, False)
    for one in (True, False)
}
SKIP_LOCKED = " SKIP LOCKED"
REPEAT = read_sql("repeat", copied=listed(COPIED), copied_from=listed(COPIED, "t.{}"))
# By whether it waits for locks, and whether tasks repeat: planning that clause costs a batch without any 3 µs a task.
FINISH = {
    (waits, repeats): StoredStatement(
        f"finish{'_waiting' * waits}{'_repeating' * repeats}",
        read_sql(
            "finish",
            skip_locked="" if waits else SKIP_LOCKED,
            place="t.id" if waits else "t.ctid",
            repeat=REPEAT if repeats else "",
            **finish_parts.ANY,
        ),
        {"n": "bigint", "eta": "timestamptz", "ts": "timestamptz"},
    )
    for waits in (True, False)
    for repeats in (True, False)
}
COMPLETE = StoredStatement(
    "complete",
    read_sql("finish", skip_locked=SKIP_LOCKED, place="t.ctid", repeat="", **finish_parts.PLAIN),
    {"accepted": "bigint[]", "ts": "timestamptz"},
)
DUTIES = StoredStatement(
    "duties", read_sql("duties"), dict.fromkeys(("lost", "expired", "waiting", "scheduled"), "bool")
)
RENEW = read_sql("renew")
RENEW_WORKERS = read_sql("renew_workers")
# The lease as it was before it was lost.
RECOVER = read_sql(
    "recover",
    lease=", ".join(f"{'lost' if name.startswith('lock') else 't'}.{name}" for name in LEAN_COLUMNS),
)
NAMED = {"which": "t.id = ANY (%(ids)s::uuid[])", "order": "t.id"}
CANCEL = {waits: read_sql("cancel", **NAMED, skip_locked="" if waits else SKIP_LOCKED) for waits in (True, False)}
# The condition of dtr_expiring, and its order.
EXPIRED = {
    "which": "t.expires_at <= django_tasks_retry_now() AND t.finished_at IS NULL AND t.locked_by IS NULL "
    "AND t.attempts = t.refunds",
    "order": "t.expires_at LIMIT %(limit)s::int",
}
EXPIRE = read_sql("cancel", **EXPIRED, skip_locked=SKIP_LOCKED)
CLEAR_STRAYS = read_sql("clear_strays")
DEPTHS = [
    read_sql("depths", collect="jsonb_agg", in_lane=in_lane, only="ONLY")
    for in_lane in ("t.lane = ''", "length(t.lane) > 0")
]
ERROR = {name: f"task.last_error ->> '{name}'" for name in ("exception", "code", "message")}
SHOWN = "SELECT key, value::uuid FROM jsonb_each_text(%(shown)s::jsonb)"
FAILURES = read_sql("failures", shown=SHOWN, **ERROR)
FAILED_SINCE = read_sql("failed_since", shown=SHOWN)
HORIZON = read_sql("horizon")
PRUNE = read_sql("prune")
RESULT_KEY = re.compile(rf'"{TaskResult._meta.db_table}(_\w+)?_pkey"')
"""Of the table, or of one of its partitions."""

NOTIFY = "SELECT pg_notify(%(channel)s, m) FROM unnest(%(messages)s::text[]) AS m"
LAST_EVENT = "SELECT pg_sequence_last_value(pg_get_serial_sequence(%(table)s, 'id')::regclass)"
# With the tables of finished tasks, where history is partitioned.
ESTIMATE = """
SELECT CASE WHEN min(c.reltuples) FILTER (WHERE c.oid = to_regclass(%(table)s)) < 0 THEN -1
    ELSE sum(GREATEST(c.reltuples, 0))::bigint END
FROM pg_class AS c
WHERE c.oid = to_regclass(%(table)s)
    OR c.oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = to_regclass(%(table)s))
"""
ESTIMATE_FAILURES = read_sql("estimate_failures")


class PostgreSQL(PostgreSQLProducer, PostgreSQLWorkflows):
    can_notify = True

    def __init__(self, using: str) -> None:
        self.using = using
        self.functions = Functions(using)

    def fetch(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        return fetch(sql, parameters, self.using)

    def call(self, statement: StoredStatement, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        return self.functions.run(statement, parameters)

    def past_strays(self, statement: Callable[[], list[tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
        """Where a result was left beside a running task, it is cleared away: it must not stop the whole batch."""
        try:
            return statement()
        except IntegrityError as error:
            if not RESULT_KEY.search(str(error)) or connections[self.using].in_atomic_block:
                raise
        self.fetch(CLEAR_STRAYS)
        return statement()

    # Leases

    def due_lanes(self, after: tuple[str, int] = FIRST_LANE) -> DueLanes:
        rows = self.call(LANES, {"queue": after[0], "priority": after[1], "most": LANES_A_PAGE})
        lanes = [Lane(queue, int(priority), eta, as_moment(now)) for queue, priority, eta, now, *_ in rows if queue]
        [(*_, has_keyed, states)] = [row for row in rows if not row[0]]
        return DueLanes(lanes, is_true(has_keyed), frozenset(states or ()))

    def keyed_lanes(self, cursors: Cursors, hops: int) -> list[KeyedLane]:
        parameters = {
            "cursor_queues": as_array([queue for queue, _ in cursors]),
            "cursor_priorities": as_array([priority for _, priority in cursors]),
            "cursor_keys": as_array(list(cursors.values())),
            "hops": hops,
            "fresh": FRESH_SECONDS,
        }
        return [read_keyed(row) for row in fetch_any(KEYED_LANES, parameters, self.using)]

    def claim(self, lanes: Sequence[Lane], limit: int, terms: Terms) -> Claimed:
        parameters = {
            "queues": as_array([lane.queue for lane in lanes]),
            "priorities": as_array([lane.priority for lane in lanes]),
            "floor_etas": as_array([lane.floor_eta for lane in lanes]),
            "floor_ids": as_array([lane.floor_id for lane in lanes]),
            "limit": limit,
            "known": as_array(terms.known),
            "held": as_array(terms.held),
            "backend": terms.backend,
            "worker": terms.worker_id,
            "lease": terms.seconds,
            "only": terms.only,
            "places": terms.places,
            "head": head_of(lanes[0]),
        }
        keyed = bool(lanes[0].key)
        if keyed:
            quotas = [limit if lane.quota is None else lane.quota for lane in lanes]
            parameters |= {
                "keys": as_array([lane.key for lane in lanes]),
                "quotas": as_array(quotas),
                "singles": as_array([lane.only for lane in lanes]),
            }
        rows = self.call(CLAIM[keyed, terms.only is not None], parameters)
        if rows and rows[0][0] is None:
            return Claimed(turned_away=True)
        return read_claimed(rows, read_lease)

    def record(self, reports: Sequence[Report], *, wait: bool = False) -> dict[int, Moved]:
        if not wait and finish_parts.are_plain(reports):
            return self.complete(reports)
        statement = FINISH[wait, any(report.next_id for report in reports)]
        parameters = finish_parts.any_parameters(reports)
        return {n: Moved(eta, ts) for n, eta, ts in self.past_strays(lambda: self.call(statement, parameters))}

    def complete(self, reports: Sequence[Report]) -> dict[int, Moved]:
        parameters = finish_parts.plain_parameters(reports)
        [(accepted, ts)] = self.past_strays(lambda: self.call(COMPLETE, parameters))
        return {n: Moved(reports[n].lease.eta, ts) for n in accepted or ()}

    def renew(self, leases: Sequence[Lease], seconds: float, actor: str | None) -> set[Fence]:
        # In the order of their ids, so that two that write about the same tasks cannot deadlock.
        leases = sorted(leases, key=lambda lease: lease.id)
        parameters = {
            "id": [lease.id for lease in leases],
            "worker": [lease.locked_by for lease in leases],
            "attempt": [lease.attempts for lease in leases],
            "moved_by": [f"{actor or lease.signature}{KEPT}" for lease in leases],
            "lease": seconds,
        }
        return {(task_id, worker, attempt) for task_id, worker, attempt in self.fetch(RENEW, parameters)}

    def renew_workers(
        self, worker_ids: Sequence[str], seconds: float, actor: str, known: Collection[UUID] | None
    ) -> set[UUID]:
        parameters = {
            "workers": list(worker_ids),
            "known": None if known is None else list(known),
            "lease": seconds,
            "moved_by": f"{actor}{KEPT}",
        }
        return {row[0] for row in self.fetch(RENEW_WORKERS, parameters)}

    def recover(self, loss: Loss, limit: int) -> list[Receipt]:
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
        return [
            Receipt(lease, Status(status), lease.eta, as_moment(ts), error and json.loads(error), cause=loss.cause)
            for status, ts, error, *columns in self.past_strays(lambda: fetch_any(RECOVER, parameters, self.using))
            for lease in [lean_lease(columns)]
        ]

    def cancel(self, ids: Sequence[UUID], actor: str, reason: str, *, wait: bool) -> dict[UUID, bool]:
        error, data = dump(cancellation(actor, reason)), dump({"reason": reason})
        return dict(self.fetch(CANCEL[wait], {"ids": list(ids), "actor": actor, "error": error, "data": data}))

    def duties(self) -> Sequence[bool]:
        return self.call(DUTIES, {})[0]

    def expire(self, actor: str, reason: str, limit: int) -> list[UUID]:
        error, data = dump(cancellation(actor, reason)), dump({"reason": reason})
        return [row[0] for row in self.fetch(EXPIRE, {"limit": limit, "actor": actor, "error": error, "data": data})]

    def prune(self, ids: Sequence[UUID], backend: str) -> tuple[int, Sequence[UUID]]:
        with transaction.atomic(using=self.using):
            [[done, members]] = self.fetch(PRUNE, {"ids": as_array(ids), "backend": backend})
        return done, members

    # Summaries and wake-ups

    def depths(self, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [row for sql in DEPTHS for row in run(sql, parameters, self.using)]

    def failure_groups(self, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        return run(FAILURES, parameters, self.using)

    def failed_since(self, parameters: Mapping[str, Any]) -> int:
        return int(self.fetch(FAILED_SINCE, parameters)[0][0])

    def estimate_failures(self) -> dict[str, int]:
        return dict(self.fetch(ESTIMATE_FAILURES, {"table": Task._meta.db_table}))

    def estimate_tasks(self) -> int:
        return int(self.fetch(ESTIMATE, {"table": Task._meta.db_table})[0][0])

    def horizon_holder(self) -> dict[str, Any] | None:
        return next(iter(run(HORIZON, {}, self.using)), None)

    def last_event_id(self) -> int:
        # The table has no index that knows its last id: every event would pay for it.
        [[last]] = self.fetch(LAST_EVENT, {"table": TaskEvent._meta.db_table})
        return last or 0

    def notify(self, channel: str, messages: Sequence[str]) -> None:
        self.fetch(NOTIFY, {"channel": channel, "messages": as_array(messages)})


def head_of(lane: Lane) -> int:
    """The lane as the first half of an advisory lock. Two that share a number share their places."""
    return crc32(f"{lane.queue} {lane.priority}".encode()) - 2**31
