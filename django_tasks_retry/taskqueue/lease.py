"""A lease: the only ticket to complete, fail, release or renew a task."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from django.db.models import BooleanField, Case, ExpressionWrapper, Q, Value, When

from ..clock import Now
from ..errors import LostReason
from ..models import Task, TaskQuerySet
from ..models.tasks import LONGEST
from ..rules.status import Status
from ..rules.transitions import KEPT
from .database import AsTexts, as_moment, database

Fence: TypeAlias = tuple[UUID, str, int]
EARLIEST = UUID(int=0)


class Lease(NamedTuple):
    """One attempt, as it was claimed: who holds it, what to call and by which policy."""

    id: UUID
    locked_by: str
    attempts: int
    lock_expires_at: datetime
    func_path: str
    args: list[Any]
    kwargs: dict[str, Any]
    queue: str
    priority: int
    backend: str
    eta: datetime
    slot: datetime | None
    max_attempts: int
    refunds: int
    backoff: Any
    timeout: float
    interval: float
    run_id: UUID
    metadata: dict[str, Any]
    created_at: datetime
    started_at: datetime
    last_attempt_at: datetime
    schedule_id: str | None = None
    lane: str = ""
    batch: UUID | None = None

    @property
    def fence(self) -> Fence:
        """The values that a report must match: this very claim of this very task."""
        return self.id, self.locked_by, self.attempts

    @property
    def signature(self) -> str:
        """The lease as a report states it in `moved_by`. The guard compares it with the row."""
        return f"{self.locked_by}:{self.attempts}"

    @property
    def spent(self) -> int:
        """Attempts spent, this one included; refunds not counted."""
        return self.attempts - self.refunds

    @property
    def wait_seconds(self) -> float:
        """Seconds from due to claimed, by the queue's clock."""
        return max(0.0, (self.last_attempt_at - self.eta).total_seconds())


COLUMNS = list(Lease._fields)
PAYLOAD: dict[str, type] = {"args": list, "kwargs": dict, "metadata": dict}
HEADER_COLUMNS = [name for name in COLUMNS if name not in PAYLOAD]
"""Columns needed without calling the function; readable whatever the payload holds."""
JSON_PLACES = [COLUMNS.index(name) for name in (*PAYLOAD, "backoff")]
SHORTEST_INTERVAL = 0.001
DEEPEST = 1000


class Unreadable(ValueError):
    """A row holds what no enqueue writes."""


def no_constant(name: str) -> Any:
    raise Unreadable(f"{name} is not JSON")


decode = json.JSONDecoder(parse_constant=no_constant).raw_decode


def read_lease(row: Sequence[Any]) -> Lease:
    """A lease from a raw row of `COLUMNS`, in which JSON arrives as text. Raises whatever the row provokes."""
    values = list(row)
    for place in JSON_PLACES:
        if isinstance(values[place], str):
            values[place] = decoded(values[place])
    lease = Lease._make(values)
    check_call(lease)
    return lease


def decoded(text: str) -> Any:
    """Most calls have few arguments, and no metadata."""
    if text == "{}":
        return {}
    if text == "[]":
        return []
    value = decode(text)[0]
    return checked_depth(value) if len(text) > 2 * DEEPEST else value


def check_depth(task: Task) -> None:
    for value in (task.args, task.kwargs, task.metadata):
        checked_depth(value)


def checked_depth(value: Any) -> Any:
    if is_deeper(value):
        raise Unreadable(f"it is nested more than {DEEPEST} deep")
    return value


def is_deeper(value: Any) -> bool:
    """Than any call that enqueue writes. Some versions of Python read it, but nothing that walks it would end well."""
    level = [value]
    for _ in range(DEEPEST):
        inner = [each for each in level if isinstance(each, list | dict)]
        level = [part for each in inner for part in (each.values() if isinstance(each, dict) else each)]
        if not level:
            return False
    return True


def check_call(of: Lease | Task) -> None:
    """Raise Unreadable if the call can be decoded but is none that enqueue would write."""
    if not (isinstance(of.args, list) and isinstance(of.kwargs, dict) and isinstance(of.metadata, dict)):
        raise Unreadable("args is no JSON array, or kwargs or metadata no JSON object")
    if not 0 < of.timeout <= LONGEST:
        raise Unreadable(f"its timeout is {of.timeout!r}")
    if of.interval and not SHORTEST_INTERVAL <= of.interval <= LONGEST:
        raise Unreadable(f"its interval is {of.interval!r}")


def lease_header(row: Sequence[Any], columns: Sequence[str] = HEADER_COLUMNS) -> Lease:
    """Return a lease without its payload, from a raw row. Unreadable values are replaced; nothing is raised."""
    raw = dict(zip(columns, row, strict=True))
    claimed_at = as_moment(raw["last_attempt_at"])
    values = {name: read_or(default, READERS.get(name, str), raw[name]) for name, default in HEADER.items()}
    moments = {name: read_or(claimed_at, as_moment, raw[name]) for name in MOMENTS}
    may_lack = {name: raw[name] and read_or(None, read, raw[name]) for name, read in MAY_LACK.items()}
    return Lease(**values, **moments, **may_lack, args=[], kwargs={}, metadata={})


def read_or(default: Any, reader: Callable[[Any], Any], value: Any) -> Any:
    try:
        return reader(value)
    except Exception:  # noqa: BLE001 - a row is data: nobody may die of reading it
        return default


def as_uuid(value: Any) -> UUID:
    return value if isinstance(value, UUID) else UUID(value)


def is_uuid(value: Any) -> bool:
    """Return whether a value names a row: SQLite would store any text as an id, and such rows are left alone."""
    return read_or(None, as_uuid, value) is not None


def as_json(value: Any) -> Any:
    return decode(value)[0] if isinstance(value, str) else value


MOMENTS = ("lock_expires_at", "eta", "created_at", "started_at", "last_attempt_at")
READERS: dict[str, Callable[[Any], Any]] = {
    "id": as_uuid, "run_id": as_uuid, "attempts": int, "refunds": int, "max_attempts": int, "priority": int,
    "backoff": as_json, "timeout": float, "interval": float,
}  # fmt: skip
HEADER: dict[str, Any] = {
    "id": EARLIEST, "locked_by": "", "attempts": 0, "func_path": "", "queue": "", "priority": 0, "backend": "",
    "max_attempts": 1, "refunds": 0, "backoff": None, "timeout": 0.0, "interval": 0.0, "run_id": EARLIEST, "lane": "",
}  # fmt: skip
MAY_LACK: dict[str, Callable[[Any], Any]] = {"slot": as_moment, "schedule_id": str, "batch": as_uuid}


@dataclass(frozen=True, slots=True)
class Claimed:
    """The leases of a claim: those to work on, and those whose row cannot be read, each with the reason."""

    leases: list[Lease] = field(default_factory=list)
    unreadable: list[tuple[Lease, str]] = field(default_factory=list)
    turned_away: bool = False  # whether too many others were claiming: there may be as much to claim as before

    def __len__(self) -> int:
        return len(self.leases) + len(self.unreadable)

    def add(self, other: Claimed) -> None:
        self.leases.extend(other.leases)
        self.unreadable.extend(other.unreadable)

    @property
    def everything(self) -> list[Lease]:
        return [*self.leases, *(lease for lease, _ in self.unreadable)]


def read_claimed(rows: Iterable[Sequence[Any]], read: Callable[[Sequence[Any]], Lease]) -> Claimed:
    """Row by row: what is wrong with one is nothing to its neighbours."""
    claimed = Claimed()
    for row in rows:
        try:
            if isinstance(row, AsTexts):
                raise Unreadable(row.reason)
            claimed.leases.append(read(row))
        except Exception as error:  # noqa: BLE001 - see above
            claimed.unreadable.append((lease_header(row, COLUMNS), f"{type(error).__name__}: {error}"))
    return claimed


def leased_by(lease: Lease) -> TaskQuerySet:
    """The task, while this very lease on it holds."""
    tasks: TaskQuerySet = Task.objects.using(database(lease.backend))
    return tasks.filter(pk=lease.id, locked_by=lease.locked_by, attempts=lease.attempts, lock_expires_at__gt=Now())


def kept_by(name: str) -> Case:
    """Return SQL for `moved_by` of a renewal, which must differ from the last one."""
    return Case(When(moved_by__endswith=KEPT * 2, then=Value(name + KEPT)), default=Value(name + KEPT * 2))


IS_LIVE = ExpressionWrapper(Q(lock_expires_at__gt=Now()), BooleanField())


class LockState(NamedTuple):
    """A task's state relative to a lease, read without a lock."""

    status: str
    locked_by: str | None
    attempts: int
    is_live: bool | None


def why_lost(leases: Sequence[Lease], using: str) -> dict[Fence, LostReason]:
    """Return by fence why a report was rejected. Leases that hold are left out: their row is locked by others."""
    if not leases:
        return {}
    tasks = Task.objects.using(using).filter(pk__in=[lease.id for lease in leases])
    rows = {pk: LockState(*row) for pk, *row in tasks.values_list("pk", "status", "locked_by", "attempts", IS_LIVE)}
    reasons = {lease.fence: reason_of(lease, rows.get(lease.id)) for lease in leases}
    return {fence: reason for fence, reason in reasons.items() if reason is not None}


def reason_of(lease: Lease, task: LockState | None) -> LostReason | None:
    if task is None:
        return LostReason.GONE
    if task.status == Status.CANCELLED:
        return LostReason.CANCELLED
    if (task.locked_by, task.attempts) != (lease.locked_by, lease.attempts):
        return LostReason.RECLAIMED
    return None if task.is_live else LostReason.EXPIRED


current_lease: ContextVar[Lease | None] = ContextVar("current_lease", default=None)
"""The attempt that is running in this context: tasks it enqueues inherit its run."""
