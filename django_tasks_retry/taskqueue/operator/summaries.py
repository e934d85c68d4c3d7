"""Summaries: how a queue stands, at a cost that does not grow with the number of stored tasks.

Every count is capped: beyond the cap nobody needs to know how many, only that they are many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connections
from django.db.models import Q

from ...clock import Now, now
from ...instants import adapted
from ...models import Task, TaskEvent
from ..database import as_moment, run
from ..engines import engine_for
from ..engines.statements import read_sql

CAP = 1000
GROUPS = 200
DEPTHS = read_sql("depths")


@dataclass(frozen=True, slots=True)
class Depth:
    """A lane: one queue at one priority."""

    queue: str
    priority: int
    oldest_eta: datetime
    oldest_func_path: str
    backend: str
    due: int


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Failures with one fingerprint, described by the latest. `open` counts those that were not retried."""

    fingerprint: str
    sample: UUID
    func_path: str
    queue: str
    last_failed_at: datetime
    exception: str
    code: str
    message: str
    first_failed_at: datetime | None
    failed: int
    open: int
    failed_today: int
    failed_this_hour: int
    retrying: int


def depths(using: str) -> list[Depth]:
    """Every lane that holds a pending task, with its head and its due tasks, counted up to CAP + 1."""
    rows, current = run(DEPTHS, {"cap": CAP + 1, **READABLE_TIMES}, using), now(using)
    return [
        Depth(
            row["queue"], row["priority"], readable_moment(row["eta"]) or current, row["func_path"],
            row["backend"], row["due"],
        )
        for row in rows
    ]  # fmt: skip


READABLE_TIMES = {"first": "0001-01-02 00:00:00+00", "last": "9999-12-30 00:00:00+00"}
"""Times beyond these are no datetimes."""


def readable_moment(value: Any) -> datetime | None:
    """None for what no datetime can hold: such a task is shown and cancelled, not waited for."""
    try:
        return value and as_moment(value)
    except ValueError:
        return None


def failure_groups(using: str) -> list[FailureGroup]:
    """Failures by fingerprint, the latest first, each count up to CAP + 1."""
    connection, current = connections[using], now(using)
    parameters: dict[str, Any] = {
        "cap": CAP + 1,
        "groups": GROUPS + 1,
        "day_ago": adapted(current - timedelta(days=1), connection),
        "hour_ago": adapted(current - timedelta(hours=1), connection),
    }
    found = [read_group(row) for row in engine_for(using).failure_groups(parameters)]
    return sorted(found, key=lambda group: group.last_failed_at, reverse=True)


def read_group(row: Mapping[str, Any]) -> FailureGroup:
    times = {name: row[name] and as_moment(row[name]) for name in ("first_failed_at", "last_failed_at")}
    texts = {name: row[name] or "" for name in ("exception", "code", "message")}
    return FailureGroup(**{**row, **times, **texts, "sample": as_uuid(row["sample"])})


def as_uuid(value: Any) -> UUID:
    return value if isinstance(value, UUID) else UUID(value)


def ahead_of(task: Task, using: str) -> int:
    """Due tasks of the same queue that workers take first, counted up to CAP + 1."""
    before = Q(priority__gt=task.priority) | Q(priority=task.priority) & (
        Q(eta__lt=task.eta) | Q(eta=task.eta, pk__lt=task.pk)
    )
    due = Task.objects.using(using).due().filter(before, queue=task.queue, priority__gte=task.priority)
    return len(due.values_list("pk", flat=True)[: CAP + 1])


def stored(using: str) -> int:
    """About how many tasks are stored, from what the database knows without counting; exactly where they are few."""
    few = len(Task.objects.using(using).order_by("pk").values_list("pk", flat=True)[: CAP + 1])
    return few if few <= CAP else max(few, engine_for(using).estimate_tasks())


def newest_before(limit: int, using: str, below: UUID | None = None) -> UUID | None:
    """The id that lies `limit` tasks back from the newest, or from `below`; None where there are fewer."""
    tasks = Task.objects.using(using).order_by("-pk")
    if below is not None:
        tasks = tasks.filter(pk__lt=below)
    found: Sequence[UUID] = tasks.values_list("pk", flat=True)[limit : limit + 1]
    return found[0] if found else None


def id_after(limit: int, using: str, above: UUID | None = None) -> UUID | None:
    """The id that lies `limit` tasks on from `above`, or from the oldest; None where there are fewer."""
    tasks = Task.objects.using(using).order_by("pk")
    if above is not None:
        tasks = tasks.filter(pk__gt=above)
    found: Sequence[UUID] = tasks.values_list("pk", flat=True)[limit - 1 : limit]
    return found[0] if found else None


def expired_leases(using: str) -> int:
    """Running tasks whose worker was lost a while ago and that nobody has taken back, up to CAP + 1."""
    lost = Task.objects.using(using).running().filter(lock_expires_at__lt=Now() - timedelta(seconds=60))
    return len(lost.order_by("locked_by").values_list("pk", flat=True)[: CAP + 1])


def newest_events(limit: int, using: str) -> tuple[list[TaskEvent], int]:
    """The newest events of all tasks, oldest first, and the number of the last that was looked for.

    Only ranges of numbers are asked for, which is what their index can answer; numbers that were drawn for events that
    were never committed leave gaps, so the range grows until there are enough.
    """
    last, width = engine_for(using).last_event_id(), max(limit, 1) * 2
    while True:
        events = TaskEvent.objects.using(using).filter(pk__gt=last - width).order_by("-pk")
        found = list(events[:limit])
        if len(found) == limit or width >= last:
            return found[::-1], last
        width *= 8
