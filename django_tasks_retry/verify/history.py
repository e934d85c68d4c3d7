"""The history of one task, as plain values. Times are seconds of the queue's clock."""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

OPEN = float("inf")


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a task; `kind` is without its prefix `task.`.

    `number` grows in the order in which changes took place, also between tasks if one change saw the other. Times do
    not tell that order: a change is dated by the arrival of its statement, which may have waited.
    """

    at: float
    kind: str
    attempt: int
    actor: str
    data: dict[str, Any]
    number: int = 0


@dataclass(frozen=True, slots=True)
class StepRow:
    """One recorded step. A step that names a batch says how many members it added to it."""

    pk: int
    name: str
    kind: str
    attempt: int
    actor: str
    at: float
    batch: UUID | None = None
    count: int = 0
    because: str = ""  # why an effect is tried once more, of an intent that is not its first


@dataclass(frozen=True, slots=True)
class Row:
    """The columns of a task and the status in its result, which is None if it has no result."""

    status: str
    attempts: int
    refunds: int
    max_attempts: int
    outcome: str | None
    holder: str | None = None
    retry_of: UUID | None = None
    lane: str = ""
    queue: str = ""
    func_path: str = ""
    unique_key: str | None = None
    run: UUID | None = None
    batch: UUID | None = None
    follows: UUID | None = None
    created_at: float = 0.0
    eta: float = 0.0
    expires_at: float | None = None
    deadline_at: float | None = None

    @property
    def limited_as(self) -> list[str]:
        """The names of limits that may apply to it: its lane, its queue and its function."""
        return [*([self.lane] if self.lane else []), f"queue:{self.queue}", f"function:{self.func_path}"]


@dataclass(frozen=True, slots=True)
class TaskHistory:
    """One task from its first event to its last."""

    task: UUID
    row: Row
    events: list[Event] = field(default_factory=list)
    steps: list[StepRow] = field(default_factory=list)
    read_at: float = OPEN  # The time of reading. An attempt without an end lasted at least until then.

    def first(self, *kinds: str) -> Event | None:
        return next((event for event in self.events if event.kind in kinds), None)

    @property
    def ended_at(self) -> float | None:
        """The time of its final event; None if it has not finished."""
        finals = (event.at for event in self.events if is_final(event))
        return next(finals, None)


def is_final(event: Event) -> bool:
    return event.kind in {"completed", "cancelled"} or (event.kind == "failed" and bool(event.data.get("terminal")))


@dataclass(frozen=True, slots=True)
class Breach:
    """One promise of the contract that one task's history does not keep."""

    rule: str
    task: UUID
    text: str
