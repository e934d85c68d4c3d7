"""The contract as a small model in memory: how the queue must look after each verb. Time counts whole minutes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from uuid import UUID

PLACES = 2
"""That may run at once of each lane."""


@dataclass
class Row:
    id: UUID
    run: UUID
    queue: str = "default"
    priority: int = 0
    eta: int = 0
    max_attempts: int = 1
    delays: tuple[int, ...] = (1,)
    interval: int = 0
    unique_key: str | None = None
    lane: str = ""
    slot: int | None = None
    retry_of: UUID | None = None
    status: str = "PENDING"
    attempts: int = 0
    refunds: int = 0
    locked_by: str | None = None
    expires: int | None = None
    events: list[tuple[str, int, str]] = field(default_factory=list)

    @property
    def unfinished(self) -> bool:
        return self.status in ("PENDING", "RUNNING")

    @property
    def budget_left(self) -> bool:
        return self.attempts - self.refunds < self.max_attempts

    def move(self, status: str, actor: str, *kinds: str, eta: int | None = None) -> None:
        self.status = status
        self.locked_by = self.expires = None
        self.eta = self.eta if eta is None else eta
        self.events += [(f"task.{kind}", self.attempts, actor) for kind in kinds]


class Model:
    def __init__(self) -> None:
        self.now = 0
        self.rows: dict[UUID, Row] = {}

    def key_is_taken(self, row: Row) -> bool:
        mine = (row.queue, row.unique_key)
        others = (other for other in self.rows.values() if other is not row and other.unfinished)
        return row.unique_key is not None and any((other.queue, other.unique_key) == mine for other in others)

    def enqueue(self, row: Row) -> bool:
        if self.key_is_taken(row):
            return False
        row.slot = (row.eta if row.slot is None else row.slot) if row.interval else None
        self.rows[row.id] = row
        return True

    def due(self) -> list[Row]:
        return [row for row in self.rows.values() if row.status == "PENDING" and row.eta <= self.now]

    def claimable(self) -> list[Row]:
        """Due, and its lane is not full."""
        return [row for row in self.due() if row.lane == "" or self.running_in(row.lane) < PLACES]

    def most_claimable(self) -> int:
        """How many of them may be claimed at once."""
        lanes = {row.lane for row in self.claimable()} - {""}
        held = sum(min(PLACES - self.running_in(lane), sum(row.lane == lane for row in self.due())) for lane in lanes)
        return held + sum(row.lane == "" for row in self.due())

    def running_in(self, lane: str) -> int:
        return sum(row.lane == lane and row.status == "RUNNING" for row in self.rows.values())

    def claim(self, row: Row, worker: str, minutes: int) -> None:
        row.attempts += 1
        row.move("RUNNING", worker, "running")
        row.locked_by, row.expires = worker, self.now + minutes

    def held(self, fence: tuple[UUID, str, int]) -> Row | None:
        """The row, where the fence and the clock still let this lease speak."""
        row = self.rows[fence[0]]
        held = (row.locked_by, row.attempts) == fence[1:] and (row.expires or 0) > self.now
        return row if held else None

    def why_lost(self, fence: tuple[UUID, str, int]) -> str:
        row = self.rows[fence[0]]
        if row.status == "CANCELLED":
            return "CANCELLED"
        return "EXPIRED" if (row.locked_by, row.attempts) == fence[1:] else "RECLAIMED"

    def renew(self, row: Row, minutes: int) -> None:
        row.expires = max(row.expires or 0, self.now + minutes)

    def complete(self, row: Row, actor: str) -> Row | None:
        """The next occurrence, for a repeating task: on the grid of its slots and in the future."""
        row.move("SUCCESS", actor, "completed")
        if not row.interval or row.slot is None:
            return None
        passed = max(0, self.now - row.slot) // row.interval
        slot = row.slot + row.interval * (passed + 1)
        return replace(fresh(row), slot=slot, eta=slot)

    def fail(self, row: Row, actor: str, *, for_good: bool = False, after: int | None = None) -> None:
        spent = row.attempts - row.refunds
        if for_good or not row.budget_left:
            return row.move("FAILED", actor, "failed")
        delay = row.delays[min(spent, len(row.delays)) - 1] if after is None else after
        return row.move("PENDING", actor, "failed", "requeued", eta=self.now + delay)

    def release(self, row: Row, actor: str, delay: int) -> None:
        row.refunds += 1
        row.move("PENDING", actor, "released", eta=self.now + delay)

    def running(self) -> list[Row]:
        return [row for row in self.rows.values() if row.status == "RUNNING"]

    def recover(self, actor: str, dead: str | None) -> set[UUID]:
        lost = [row for row in self.running() if (row.locked_by == dead if dead else (row.expires or 0) <= self.now)]
        for row in lost:
            if row.budget_left:
                row.move("PENDING", actor, "lease_lost")
            else:
                row.move("FAILED", actor, "lease_lost", "failed")
        return {row.id for row in lost}

    def retry(self, row: Row, actor: str) -> Row:
        again = replace(fresh(row), retry_of=row.id, eta=self.now, slot=row.slot)
        if not self.ended_its_series(row):
            again = replace(again, interval=0, slot=None)
        again.events = [("task.retried", 0, actor)]
        return again

    def ended_its_series(self, row: Row) -> bool:
        carried_on = any(other.retry_of == row.id and other.interval for other in self.rows.values())
        return row.status != "SUCCESS" and not carried_on


def fresh(row: Row) -> Row:
    """The same call, never claimed."""
    return replace(row, status="PENDING", attempts=0, refunds=0, retry_of=None, events=[], locked_by=None, expires=None)
