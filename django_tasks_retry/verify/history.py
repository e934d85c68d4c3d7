"""The history of one task, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Event:
    """`at` is the queue's clock, in seconds; `kind` is without its prefix `task.`."""

    at: float
    kind: str
    attempt: int
    actor: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Row:
    """What the rows of a task say: its own, and its result's."""

    status: str
    attempts: int
    refunds: int
    max_attempts: int
    outcome: str | None
    """The status in its result; None where it has none."""
    holder: str | None = None
    retry_of: UUID | None = None
    lane: str = ""
    queue: str = ""
    func_path: str = ""

    @property
    def limited_as(self) -> list[str]:
        """By what names limits may apply to it: its lane, its queue and its function."""
        return [*([self.lane] if self.lane else []), f"queue:{self.queue}", f"function:{self.func_path}"]


@dataclass(frozen=True, slots=True)
class Life:
    """One task from its first event to its last."""

    task: UUID
    row: Row
    events: list[Event] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Breach:
    """One promise of the contract that one task's history does not keep."""

    rule: str
    task: UUID
    text: str
