"""What differs between the statements that record reports: of any kind, or all of them plain completions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...rules.status import Status
from ...rules.transitions import COMPLETE
from ..consumer.report import Report
from ..database import as_array, as_text

ANY = {
    "reports": """SELECT r.*
    FROM ROWS FROM (json_to_recordset(%(reports)s::json) AS (
        id uuid, worker text, attempt int, moved_by text, status text, delay float8, refund int, error jsonb,
        fingerprint text, result text, next_id uuid, waits_for text
    )) WITH ORDINALITY AS r (
        id, worker, attempt, moved_by, status, delay, refund, error, fingerprint, result, next_id, waits_for, n
    )""",
    "events": """SELECT m.id, e.kind, django_tasks_retry_now(), m.attempts, COALESCE(e.actor, m.worker),
        CASE WHEN e.kind IN ('task.requeued', 'task.released')
            THEN COALESCE(e.data, '{}') || jsonb_build_object('eta', m.eta) ELSE COALESCE(e.data, '{}') END
    FROM ROWS FROM (json_to_recordset(%(events)s::json) AS (of int, kind text, actor text, data jsonb))
        WITH ORDINALITY AS e (of, kind, actor, data, n)
    JOIN moved AS m ON m.n = e.of
    ORDER BY e.n""",
    "answer": "SELECT n, eta, django_tasks_retry_now() AS ts FROM moved",
}
PLAIN = {
    "reports": """SELECT r.id, %(worker)s::text AS worker, r.attempt, %(worker)s::text || ':' || r.attempt AS moved_by,
        'SUCCESS' AS status, NULL::float8 AS delay, NULL::int AS refund, NULL::jsonb AS error,
        NULL::text AS fingerprint, r.result, NULL::uuid AS next_id, NULL::text AS waits_for, r.n
    FROM unnest(%(ids)s::uuid[], %(attempts)s::int[], %(results)s::text[])
        WITH ORDINALITY AS r (id, attempt, result, n)""",
    "events": """SELECT id, 'task.completed', finished_at, attempts, worker, '{}' FROM moved""",
    "answer": "SELECT array_agg(n), django_tasks_retry_now() FROM moved",
}
NOTHING = "null"
"""What most functions return: SQL's NULL, as the ORM writes it."""


def are_plain(reports: Sequence[Report]) -> bool:
    """Whether each is a completion by the one worker that holds all of their leases."""
    worker = reports[0].lease.locked_by
    return all(
        report.move is COMPLETE
        and report.lease.locked_by == report.actor == worker
        and report.moved_by == report.lease.signature
        and report.next_id is None
        and not any(report.data)
        for report in reports
    )


def plain_parameters(reports: Sequence[Report]) -> dict[str, Any]:
    leases = [report.lease for report in reports]
    return {
        "worker": leases[0].locked_by,
        "ids": as_array([lease.id.hex for lease in leases]),
        "attempts": as_array([lease.attempts for lease in leases]),
        "results": as_array([None if report.result == NOTHING else report.result for report in reports]),
    }


def any_parameters(reports: Sequence[Report]) -> dict[str, Any]:
    return {"reports": as_text([row_of(report) for report in reports]), "events": as_text(list(event_rows(reports)))}


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
    if report.result is not None and report.result != NOTHING:
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
