"""The Engine: what each database must do, and what is the same on both.

Each method is one transaction, or a part of the caller's.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from django.core.checks import CheckMessage
from django.db import connections
from django.db.models import QuerySet

from ...models import FlowLimit, Task
from ..database import cursor_on, fetch, fetch_dicts
from ..lease import EARLIEST, Claimed, Fence, Lease, as_uuid, is_uuid
from ..report import Receipt, Report
from .ranges import ClaimRange, Cursors, DuePage, LaneRange

# No file: its columns depend on the table.
ADD = """\
INSERT -- Add counts
INTO {table} AS stat ({columns}) VALUES {rows} ON CONFLICT ({key}) DO UPDATE SET {sums}"""
ROWS_PER_STATEMENT = 100


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """The worker to claim for, the seconds of a lease, the known functions, and the labels whose rows are locked."""

    worker_id: str
    backend: str
    seconds: float
    known: Sequence[str]
    held: Sequence[str] = ()
    only: UUID | None = None  # the one task to claim, even if it must run in a process of its own
    places: int = 0  # the number of claimers at the head of the first range at once; 0 means any number


@dataclass(frozen=True, slots=True)
class RecoverRequest:
    """Lost leases: those of the worker `dead`, or all that have expired. `actor` is the finder."""

    actor: str
    dead: str | None
    cause: str
    crashed: bool = False  # whether the process died by itself, so that any of its tasks may be the cause
    facts: Mapping[str, Any] = field(default_factory=dict)  # facts about the end of the process, for the event


class Written(NamedTuple):
    """The task's eta after the move, and when it was made."""

    eta: datetime
    ts: datetime


class Suspended(NamedTuple):
    """A task that waits for a batch or a signal, and whether that has come; None if its key names neither."""

    id: UUID
    waits_for: str
    is_ready: bool | None


class Engine(Protocol):
    using: str
    has_server: bool  # whether a server counts the connections
    has_row_locks: bool  # else one lock keeps all writers out

    @property
    def sql(self) -> Mapping[str, str]:
        """The statements of `sql/` that run here, by name."""

    @property
    def can_notify(self) -> bool:
        """Whether workers hear wake-ups."""

    @property
    def can_partition(self) -> bool:
        """Whether history can be in partitions."""

    # The same on both databases

    def fetch(self, name: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """Run `sql/<name>.sql`. Return its rows."""
        return fetch(self.sql[name], parameters, self.using)

    def rows(self, name: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Run `sql/<name>.sql`. Return its rows as dictionaries."""
        return fetch_dicts(self.sql[name], parameters, self.using)

    def open_member(self, batch: UUID, after: UUID) -> UUID | None:
        """Return the first unfinished member of the batch from this id on."""
        rows = self.fetch("open_member", {"batch": batch.hex, "id": after.hex})
        return next((as_uuid(pk) for found, pk in rows if as_uuid(found) == batch), None)

    def open_batches(self, after: UUID, limit: int) -> list[tuple[UUID, UUID | None]]:
        """Return batches with an unfinished member, and the parent of their first one."""
        rows = self.fetch("open_batches", {"after": after.hex, "limit": limit, "first": EARLIEST.hex})
        return [(as_uuid(batch), as_uuid(pk) if is_uuid(pk) else None) for batch, pk in rows if is_uuid(batch)]

    def waiting_tasks(self, after: tuple[str, UUID], limit: int) -> list[Suspended]:
        """Return tasks that wait, behind this one by what they wait for and by id."""
        return as_suspended(self.fetch("suspended", {"key": after[0], "id": after[1].hex, "limit": limit}))

    def waiting_for(self, keys: Sequence[str], limit: int) -> list[Suspended]:
        """Return tasks that wait for one of these."""
        return as_suspended(self.fetch("awaiting", {"keys": self.as_list(keys), "limit": limit}))

    def late(self, limit: int) -> list[UUID]:
        """Return unfinished tasks whose deadline has passed."""
        return [as_uuid(pk) for (pk,) in self.fetch("late", {"limit": limit}) if is_uuid(pk)]

    def clear_strays(self) -> None:
        """Delete results that were left beside running tasks, if no trigger does."""

    def add_signal(self, name: str, payload: str | None, actor: str) -> bool:
        """Write a signal in the caller's transaction. Return False if the name was sent before."""
        with cursor_on(self.using) as cursor:
            cursor.execute(self.sql["signal"], {"name": name, "payload": payload, "actor": actor})
            return bool(cursor.rowcount == 1)

    def move_schedules_on(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run move_on.sql with each."""
        with connections[self.using].cursor() as cursor:
            cursor.executemany(self.sql["move_on"], rows)

    def add_counts(self, table: str, key: Sequence[str], added: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Add each row to the one with its key, which comes first in it, or write it."""
        for start in range(0, len(rows), ROWS_PER_STATEMENT):
            part = rows[start : start + ROWS_PER_STATEMENT]
            row = f"({', '.join(['%s'] * len(part[0]))})"
            sql = ADD.format(
                table=table,
                columns=", ".join((*key, *added)),
                rows=", ".join([row] * len(part)),
                key=", ".join(key),
                sums=", ".join(f"{column} = stat.{column} + excluded.{column}" for column in added),
            )
            with connections[self.using].cursor() as cursor:
                cursor.execute(sql, [value for row in part for value in row])

    # Sessions

    def as_list(self, values: Sequence[str]) -> str:
        """Return texts as the one parameter that a statement takes for a list."""

    def statements(self) -> dict[str, str]:
        """Return each statement of `sql/` by name, as this database's own shell takes it."""

    def check_settings(self) -> list[CheckMessage]:
        """Return what to change in DATABASES."""

    def identity(self) -> str:
        """Return a name of this database that does not depend on its alias."""

    def encoding(self) -> str:
        """Return how the server stores texts."""
        return "UTF8"

    def limit_session(self, lock_seconds: float) -> None:
        """Bound the wait for a lock, for as long as this connection lives, if nothing else can end it."""

    def limit_locks(self, seconds: float) -> None:
        """Bound the wait for a lock until the transaction ends, if the database can."""

    def limit_statements(self, seconds: float, whole: float) -> AbstractContextManager[None]:
        """Cancel statements inside that take longer than `seconds`, or begin so late that `whole` is past."""

    def notify(self, channel: str, messages: Sequence[str]) -> None:
        """Send the messages to all listeners, if this database can."""

    # New tasks

    def writes_at_once(self, tasks: Sequence[Task]) -> bool:
        """Return whether these are inserted by a single statement, which is a transaction by itself."""

    def insert(self, tasks: Sequence[Task]) -> list[Task]:
        """Write new tasks, without those whose unique key is taken. Return what was written."""

    def insert_each(self, chunks: Iterable[Sequence[Task]]) -> Iterator[list[Task]]:
        """Insert chunk after chunk, in one transaction, each asked for while the one before is written."""

    def holders(self, tasks: Sequence[Task], *, settles: bool = False) -> Iterable[Task]:
        """Return the unfinished tasks that hold the unique keys of these; locked if it `settles` and no key can be."""

    def lock_key(self, queue: str, key: str) -> None:
        """Wait for others that settle the same key, and keep them waiting until the transaction ends, if it can."""

    # Leases

    def due_ranges(self, after: tuple[str, int], most: int) -> DuePage:
        """Return a page of ranges without a lane whose first task is due, behind this queue and priority."""

    def lane_ranges(self, cursors: Cursors, hops: int, fresh: float) -> list[LaneRange]:
        """Return ranges of lanes: `hops` from each cursor on, and those of tasks due within `fresh` seconds."""

    def claim(self, ranges: Sequence[ClaimRange], limit: int, terms: ClaimRequest) -> Claimed:
        """Lease up to `limit` due tasks, range by range: of ranges that all have a lane, or none of them."""

    def lock_limits(self, labels: Collection[str]) -> list[FlowLimit]:
        """Lock these rows until the transaction ends, but those that others have locked or nobody can read."""

    def count_leases(self, labels: Collection[str]) -> dict[str, int]:
        """Count the permits that are out, in a statement after the locks."""

    def record(self, reports: Sequence[Report], *, wait: bool = False) -> dict[int, Written]:
        """Make the reported moves whose lease holds. Return what was written, by the index of the report.

        Rows that others keep locked are passed over, unless the caller will `wait` for them.
        """

    def renew(self, leases: Sequence[Lease], seconds: float, actor: str | None, asked: datetime | None) -> set[Fence]:
        """Extend leases that hold and that nobody keeps locked. Return their fences.

        A renewal that waits for a lock is judged by when it was asked: PostgreSQL knows that, SQLite is given `asked`.
        """

    def renew_workers(
        self,
        worker_ids: Sequence[str],
        seconds: float,
        actor: str,
        known: Collection[UUID] | None,
        asked: datetime | None,
    ) -> set[UUID]:
        """Extend the leases of these workers, as `renew` does. Return their tasks. `known` limits which."""

    def excludes_writers(self, error: BaseException | None) -> bool:
        """Return whether a write failed because somebody keeps all others from writing tasks, at this moment."""

    def recover(self, loss: RecoverRequest, limit: int) -> list[Receipt]:
        """Take lost tasks back, or fail those whose budget is spent."""

    def cancel(self, ids: Sequence[UUID], actor: str, reason: str, *, wait: bool) -> dict[UUID, bool]:
        """Cancel unfinished tasks, waiting as `record` does. Return by id whether a worker was running it."""

    def remember(self, lease: Lease, name: str, kind: str, result: str) -> datetime | None:
        """Write a step under the fence; None if the lease no longer holds. Locks the task until the commit."""

    def pending_maintenance(self) -> Sequence[bool]:
        """Return the row of pending_maintenance.sql."""

    def expire(self, actor: str, reason: str, limit: int) -> list[UUID]:
        """Cancel up to `limit` tasks that expired before their first attempt began, of those that nobody locks."""

    def prune(self, ids: Sequence[UUID], backend: str) -> tuple[int, Sequence[UUID]]:
        """Delete finished tasks at once, if that can be done. Return how many, and the tasks left to the caller."""

    def export(self, ids: Sequence[UUID]) -> list[str]:
        """Return tasks with their results, events and steps, one JSON text each."""

    # Estimates, without counting

    def estimate_failures(self) -> dict[str, int]:
        """Return about how many failed with each common fingerprint, as far as the database knows."""

    def estimate_rows(self, table: str) -> int:
        """Return about how many rows this table holds."""

    def estimate_count(self, tasks: QuerySet[Any]) -> int:
        """Return about how many rows match, at a cost that does not grow with them."""

    def horizon_holder(self) -> dict[str, Any] | None:
        """Return the row of horizon.sql: the session that holds back the horizon; None if there is none."""

    def last_event_id(self) -> int:
        """Return about the number of the newest event; 0 if there was none."""


def as_suspended(rows: Iterable[tuple[Any, ...]]) -> list[Suspended]:
    return [Suspended(as_uuid(pk), key, None if is_ready is None else bool(is_ready)) for pk, key, is_ready in rows]
