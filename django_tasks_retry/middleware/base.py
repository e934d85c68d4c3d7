"""Middleware: code of a project around every enqueue and every attempt, and at the turns of a worker's life.

`OPTIONS["MIDDLEWARE"]` lists the paths of subclasses of `Middleware`; the first is the outermost. One instance of each
serves the whole process, all its threads included. What a middleware raises is logged, and has no other effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

from ..rules.status import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call that is about to be stored. `metadata` may be added to, and reaches every attempt; all else is to read."""

    id: UUID
    func_path: str
    args: list[Any]
    kwargs: dict[str, Any]
    queue: str
    priority: int
    backend: str
    eta: datetime | None
    """None where it is due at once, or after a delay."""
    retry_of: UUID | None
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What an attempt reports. `status` is the task's after it, provided that the lease still holds."""

    status: Status
    error: dict[str, Any] | None = None
    """message, code, exception, traceback, attempt, max_attempts, terminal, backoff_ms."""
    fingerprint: str | None = None
    """Alike for failures that are alike; what the console groups by."""
    delay: float = 0.0
    """Seconds until the next attempt, where there is one."""

    @property
    def is_final(self) -> bool:
        return self.status is not Status.PENDING

    @property
    def is_failure(self) -> bool:
        return self.error is not None


@dataclass(slots=True, kw_only=True)
class Attempt:
    """One attempt of a task. `ending` is there once the function has ended."""

    id: UUID
    func_path: str
    args: list[Any]
    kwargs: dict[str, Any]
    queue: str
    priority: int
    backend: str
    worker_id: str
    number: int
    """Which claim of the task it is, from 1."""
    spent: int
    """The same without attempts that were refunded."""
    max_attempts: int
    run_id: UUID
    created_at: datetime
    eta: datetime
    claimed_at: datetime
    metadata: dict[str, Any]
    schedule: str | None = None
    """The name of the schedule that asked for it, if one did."""
    slot: datetime | None = None
    """The instant that a schedule or a repetition meant it to run at."""
    ending: Ending | None = None

    @property
    def wait_seconds(self) -> float:
        """From due to claimed, by the queue's clock."""
        return max(0.0, (self.claimed_at - self.eta).total_seconds())


Layer: TypeAlias = AbstractContextManager[Any]


class Middleware:
    """Override what you need: what is not overridden is never called."""

    def enqueue(self, calls: Sequence[Call]) -> Layer:
        """Around the INSERT of one call, or of all that are stored together. Its exception passes through."""
        return nullcontext()

    def attempt(self, attempt: Attempt) -> Layer:
        """Around one attempt, in the thread or asyncio task of the function, whose exception passes through.

        Around a coroutine it must not block: it runs in the event loop.
        """
        return nullcontext()

    def worker_started(self, worker_id: str) -> None:
        """In the supervisor, before its first child is forked. Start no threads here: they would not survive."""

    def child_started(self, worker_id: str) -> None:
        """In each child right after it was forked: make pools and clients anew."""

    def child_ending(self, worker_id: str) -> None:
        """In a child that ends in good order: flush. It shares five seconds with the other exit hooks."""
