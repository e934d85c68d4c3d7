"""What an engine must do: each method is one transaction, or part of the caller's."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from ...models import Task
from ..consumer.lanes import FIRST_LANE, Cursors, DueLanes, KeyedLane, Lane
from ..consumer.receipts import Receipt
from ..consumer.report import Report
from ..lease import Claimed, Fence, Lease


@dataclass(frozen=True, slots=True)
class Terms:
    """On which terms tasks are claimed: for whom, for how long, which functions are known, and whose rows are held."""

    worker_id: str
    backend: str
    seconds: float
    known: Sequence[str]
    held: Sequence[str] = ()
    only: UUID | None = None
    """This very task, also where others must leave it to a process of its own."""
    places: int = 0
    """How many may claim from the head of the first lane at once; 0 means: as many as like."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Which leases are lost: those of the worker `dead`, or all that have expired. `actor` found out."""

    actor: str
    dead: str | None
    cause: str
    crashed: bool = False
    """Whether the tasks may be why: they were running when their process died by itself."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """How the process ended, for the event."""


class Moved(NamedTuple):
    """The task's eta after the move, and when it was made."""

    eta: datetime
    ts: datetime


class Waiting(NamedTuple):
    """A task that waits for a batch or a signal, and whether that has come."""

    id: UUID
    waits_for: str
    is_ready: bool


class Engine(Protocol):
    using: str
    can_notify: bool

    def writes_at_once(self, tasks: Sequence[Task]) -> bool:
        """Whether these are inserted by a single statement, which is a transaction by itself."""

    def insert(self, tasks: Sequence[Task]) -> list[Task]:
        """Write new tasks, but those whose unique key is taken. Returns what was written."""

    def insert_each(self, chunks: Iterable[Sequence[Task]]) -> Iterator[list[Task]]:
        """The same for chunk after chunk, in one transaction, each asked for while the one before is written."""

    def holders(self, tasks: Sequence[Task]) -> Iterable[Task]:
        """The unfinished tasks that hold the unique keys of these."""

    def lock_key(self, queue: str, key: str) -> None:
        """Wait for others that settle the same key, and keep them waiting until the transaction ends."""

    def due_lanes(self, after: tuple[str, int] = FIRST_LANE) -> DueLanes:
        """A page of (queue, priority) pairs whose first task without a lane is due, and what else there is."""

    def keyed_lanes(self, cursors: Cursors, hops: int) -> list[KeyedLane]:
        """Lanes in which tasks wait: so many from each cursor on, and those of what became due last."""

    def claim(self, lanes: Sequence[Lane], limit: int, terms: Terms) -> Claimed:
        """Lease up to `limit` due tasks, lane by lane: of tasks that all have a lane of their own, or none of them."""

    def record(self, reports: Sequence[Report], *, wait: bool = False) -> dict[int, Moved]:
        """Make the reported moves whose lease holds. What was written, by the place of the report.

        Rows that others keep locked are passed over, unless the caller will `wait` for them.
        """

    def renew(self, leases: Sequence[Lease], seconds: float, actor: str | None) -> set[Fence]:
        """Extend those that hold and nobody keeps locked, and name them."""

    def renew_workers(
        self, worker_ids: Sequence[str], seconds: float, actor: str, known: Collection[UUID] | None
    ) -> set[UUID]:
        """Extend what these workers hold, of what they know of and nobody keeps locked; the tasks."""

    def recover(self, loss: Loss, limit: int) -> list[Receipt]:
        """Take lost tasks back, or fail those whose budget is spent."""

    def cancel(self, ids: Sequence[UUID], actor: str, reason: str, *, wait: bool) -> dict[UUID, bool]:
        """End those of the tasks that are unfinished, as `record` does. By id, whether a worker was running it."""

    def remember(self, lease: Lease, name: str, kind: str, result: str) -> datetime | None:
        """Write a step under the fence; None where the lease no longer holds. Locks the task until the commit."""

    def open_member(self, batch: UUID, after: UUID) -> UUID | None:
        """The first unfinished member of the batch from this id on."""

    def waiting_tasks(self, after: tuple[str, UUID], limit: int) -> list[Waiting]:
        """The rows of suspended.sql behind this one, by what they wait for and by id."""

    def waiting_for(self, keys: Sequence[str], limit: int) -> list[Waiting]:
        """The same of those that wait for one of these."""

    def duties(self) -> Sequence[bool]:
        """The row of duties.sql."""

    def expire(self, actor: str, reason: str, limit: int) -> list[UUID]:
        """Cancel up to `limit` tasks that expired before their first attempt began, of those that nobody locks."""

    def prune(self, ids: Sequence[UUID], backend: str) -> tuple[int, Sequence[UUID]]:
        """Delete finished tasks at once where that can be done. How many went, and which are left to be looked at."""

    def depths(self, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The rows of depths.sql: of tasks without a lane, then of those with one."""

    def failure_groups(self, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The rows of failures.sql."""

    def failed_since(self, parameters: Mapping[str, Any]) -> int:
        """The answer of failed_since.sql."""

    def estimate_failures(self) -> dict[str, int]:
        """About how many failed with each common fingerprint, as far as the database knows without counting."""

    def estimate_tasks(self) -> int:
        """About how many tasks are stored, without counting them."""

    def horizon_holder(self) -> dict[str, Any] | None:
        """The row of horizon.sql: who holds back the horizon; None where nobody does, or there is none."""

    def last_event_id(self) -> int:
        """About the number of the newest event, without looking for it; 0 where there was none."""

    def notify(self, channel: str, messages: Sequence[str]) -> None:
        """Send the messages to whoever listens, where this database can."""
