"""PostgreSQL: every verb is one statement."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import IntegrityError, connections

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
from ..database import as_array, as_moment, as_text, fetch, fetch_any, run
from ..events import cancellation
from ..lease import COLUMNS as LEASE_COLUMNS
from ..lease import EARLIEST, LEAN_COLUMNS, Claimed, Fence, Lease, lean_lease, read_claimed, read_lease
from ..producer.new_tasks import CHUNK, as_dated, as_stored
from .base import Loss, Moved, Terms
from .postgresql_insert import RETURNED, listed, statement
from .statements import read_sql
from .workflows import PostgreSQLWorkflows

COPIED = [name for name in (*CALL_COLUMNS, "queue", "priority") if name != "slot"]
HOLDERS = read_sql("holders")
LANES = read_sql("lanes")
KEYED_LANES = read_sql("keyed_lanes")
CLAIMED = {"lease": listed(LEASE_COLUMNS, "t.{}")}
IS_QUEUE = "s.kind = 'queue' AND s.name = l.queue"
PLAIN = {"arrays": "", "names": "", "is_state": IS_QUEUE, "in_lane": "t.lane = ''", "quota": "%(limit)s::int"}
KEYED = {
    "arrays": ", %(keys)s::text[], %(quotas)s::int[], %(singles)s::uuid[]",
    "names": ", key, quota, single",
    "is_state": f"({IS_QUEUE} OR s.kind = 'lane' AND s.name = l.key)",
    "in_lane": f"t.lane > '' AND t.lane = lane.key AND (lane.single = '{EARLIEST}' OR t.id = lane.single)",
    "quota": "LEAST(lane.quota, %(limit)s::int)",
}
UNSUSPECTED, ONE = f"(t.crashes IS NULL OR t.crashes < {SUSPECT})", "t.id = %(only)s::uuid"
CLAIM, CLAIM_ONE = (read_sql("claim", **CLAIMED, **PLAIN, whom=whom) for whom in (UNSUSPECTED, ONE))
CLAIM_KEYED, CLAIM_KEYED_ONE = (read_sql("claim", **CLAIMED, **KEYED, whom=whom) for whom in (UNSUSPECTED, ONE))
SKIP_LOCKED = " SKIP LOCKED"
REPEAT = read_sql("repeat", copied=listed(COPIED), copied_from=listed(COPIED, "t.{}"))
# By whether it waits for locks, and whether tasks repeat: planning that clause costs a batch without any 3 µs a task.
FINISH = {
    (waits, repeats): read_sql(
        "finish",
        skip_locked="" if waits else SKIP_LOCKED,
        place="t.id" if waits else "t.ctid",
        repeat=REPEAT if repeats else "",
    )
    for waits in (True, False)
    for repeats in (True, False)
}
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
LOCK_KEY = "SELECT pg_advisory_xact_lock(hashtextextended(%(key)s, 0))"
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


class PostgreSQL(PostgreSQLWorkflows):
    can_notify = True

    def __init__(self, using: str) -> None:
        self.using = using

    def fetch(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        return fetch(sql, parameters, self.using)

    def fetch_past_strays(self, sql: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Where a result was left beside a running task, it is cleared away: it must not stop the whole batch."""
        try:
            return fetch_any(sql, parameters, self.using)
        except IntegrityError as error:
            if not RESULT_KEY.search(str(error)) or connections[self.using].in_atomic_block:
                raise
        self.fetch(CLEAR_STRAYS)
        return fetch_any(sql, parameters, self.using)

    # New tasks

    def writes_at_once(self, tasks: Sequence[Task]) -> bool:
        return len(tasks) <= CHUNK and not any(task.unique_key for task in tasks)

    def insert(self, tasks: Sequence[Task]) -> list[Task]:
        sql, parameters, alike = statement(tasks)
        rows = self.fetch(sql, parameters)
        return self.dated(tasks, rows) if alike else self.stored(tasks, rows)

    def dated(self, tasks: Sequence[Task], rows: Sequence[tuple[Any, ...]]) -> list[Task]:
        """All were written at the moment that one row tells."""
        moment = rows[0][RETURNED.index("created_at")]
        return [as_dated(task, moment, self.using) for task in tasks]

    def stored(self, tasks: Sequence[Task], rows: Sequence[tuple[Any, ...]]) -> list[Task]:
        """Those that were written, as each row tells."""
        written = {row[0]: dict(zip(RETURNED, row, strict=False)) for row in rows}
        return [as_stored(task, written[task.id], self.using) for task in tasks if task.id in written]

    def holders(self, tasks: Sequence[Task]) -> Iterable[Task]:
        keys = {"queue": [task.queue for task in tasks], "unique_key": [task.unique_key for task in tasks]}
        ids = [row[0] for row in self.fetch(HOLDERS, keys)]
        holders: Iterable[Task] = Task.objects.using(self.using).unfinished().filter(pk__in=ids)
        return holders

    def lock_key(self, queue: str, key: str) -> None:
        self.fetch(LOCK_KEY, {"key": f"django_tasks_retry {queue} {key}"})

    # Leases

    def due_lanes(self, after: tuple[str, int] = FIRST_LANE) -> DueLanes:
        rows = fetch_any(LANES, {"queue": after[0], "priority": after[1], "most": LANES_A_PAGE}, self.using)
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
        }
        sql = CLAIM if terms.only is None else CLAIM_ONE
        if lanes[0].key:
            quotas = [limit if lane.quota is None else lane.quota for lane in lanes]
            sql = CLAIM_KEYED if terms.only is None else CLAIM_KEYED_ONE
            parameters |= {
                "keys": as_array([lane.key for lane in lanes]),
                "quotas": as_array(quotas),
                "singles": as_array([lane.only for lane in lanes]),
            }
        return read_claimed(fetch_any(sql, parameters | {"only": terms.only}, self.using), read_lease)

    def record(self, reports: Sequence[Report], *, wait: bool = False) -> dict[int, Moved]:
        rows, events = [row_of(report) for report in reports], list(event_rows(reports))
        parameters = {"reports": as_text(rows), "events": as_text(events)}
        sql = FINISH[wait, any(report.next_id for report in reports)]
        return {n: Moved(eta, ts) for n, eta, ts in self.fetch_past_strays(sql, parameters)}

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
            for status, ts, error, *columns in self.fetch_past_strays(RECOVER, parameters)
            for lease in [lean_lease(columns)]
        ]

    def cancel(self, ids: Sequence[UUID], actor: str, reason: str, *, wait: bool) -> dict[UUID, bool]:
        error, data = dump(cancellation(actor, reason)), dump({"reason": reason})
        return dict(self.fetch(CANCEL[wait], {"ids": list(ids), "actor": actor, "error": error, "data": data}))

    def expire(self, actor: str, reason: str, limit: int) -> list[UUID]:
        error, data = dump(cancellation(actor, reason)), dump({"reason": reason})
        return [row[0] for row in self.fetch(EXPIRE, {"limit": limit, "actor": actor, "error": error, "data": data})]

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


def row_of(report: Report) -> dict[str, Any]:
    """What it leaves out is NULL: most reports are completions that say little more than that."""
    lease = report.lease
    row: dict[str, Any] = {
        "id": lease.id.hex,
        "worker": lease.locked_by,
        "attempt": lease.attempts,
        "moved_by": report.moved_by,
        "status": report.move.target,
    }
    if report.result is not None and report.result != "null":  # which is SQL's NULL, as the ORM writes it
        row["result"] = report.result
    if report.next_id is not None:
        row["next_id"] = report.next_id.hex
    if report.move.target is Status.PENDING:
        row |= {"delay": report.delay, "refund": report.move.refunds}
    if report.waits_for is not None:
        row["waits_for"] = report.waits_for
    if report.error is not None:
        row |= {"error": report.error, "fingerprint": report.fingerprint}
    return row


def event_rows(reports: Sequence[Report]) -> Iterator[dict[str, Any]]:
    """As `row_of` does: the actor is the worker unless it says otherwise, and most events hold no data."""
    for n, report in enumerate(reports):
        for kind, data in report.events:
            row: dict[str, Any] = {"of": n, "kind": kind}
            if report.actor != report.lease.locked_by:
                row["actor"] = report.actor
            if data:
                row["data"] = data
            yield row
