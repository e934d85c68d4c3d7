"""Middleware: code of a project around every enqueue and every attempt, and at the events of a worker's life."""

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Generic, TypeAlias, TypeVar
from uuid import UUID

from django.utils.module_loading import import_string

from .conf import forgotten, options
from .errors import InvalidOptions
from .rules.status import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueuedTask:
    """A call that is about to be stored. `metadata` may be added to, and reaches every attempt; all else is to read."""

    id: UUID
    func_path: str
    args: list[Any]
    kwargs: dict[str, Any]
    queue: str
    priority: int
    backend: str
    eta: datetime | None
    """None if it is due at once, or after a delay."""
    retry_of: UUID | None
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The report of an attempt. `status` is the task's after it, if the lease still holds."""

    status: Status
    error: dict[str, Any] | None = None
    """message, code, exception, traceback, attempt, max_attempts, terminal, backoff_ms."""
    fingerprint: str | None = None
    """Alike for failures that are alike; what the console groups by."""
    delay: float = 0.0
    """Seconds until the next attempt, if there is one."""

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
    """The number of this claim of the task, from 1."""
    spent: int
    """The number of this attempt, refunded ones not counted."""
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
        """Seconds from due to claimed, by the queue's clock."""
        return max(0.0, (self.claimed_at - self.eta).total_seconds())


Layer: TypeAlias = AbstractContextManager[Any]

SIGNAL_PROCESS = "for signals"
"""The worker_id of the process that a supervisor forks to send signals. It runs no tasks."""


class Middleware:
    """Override what you need: what is not overridden is never called."""

    def enqueue(self, calls: Sequence[EnqueuedTask]) -> Layer:
        """Around the INSERT of one call, or of all that are stored together. Its exception passes through."""
        return nullcontext()

    def attempt(self, attempt: Attempt) -> Layer:
        """Around one attempt, in the thread or asyncio task of the function, whose exception passes through.

        Around a coroutine it must not block: it runs in the event loop.
        """
        return nullcontext()

    def worker_started(self, worker_id: str) -> None:
        """Runs in the supervisor, before its first child is forked. Start no threads here: they would not survive."""

    def child_started(self, worker_id: str) -> None:
        """Runs in each child right after it was forked: make pools and clients anew."""

    def child_ending(self, worker_id: str) -> None:
        """Runs in a child that ends in good order: flush. It shares five seconds with the other exit hooks."""


logger = logging.getLogger("django_tasks_retry.middleware")
T = TypeVar("T")


def never(_: BaseException) -> bool:
    return False


class Layers(Generic[T]):
    """Hooks around a subject: entered in order, left in reverse. None can fail it, nor swallow what it raises.

    `interrupts` tells an exception that is meant for whatever runs in this thread; it is passed on.
    """

    def __init__(
        self, hooks: Sequence[Callable[[T], Layer]], subject: T, interrupts: Callable[[BaseException], bool] = never
    ) -> None:
        self.hooks, self.subject, self.interrupts = hooks, subject, interrupts
        self.entered: list[tuple[Callable[[T], Layer], Layer]] = []

    def __enter__(self) -> T:
        try:
            for hook in self.hooks:
                self.enter(hook)
        except BaseException as interruption:
            self.leave(interruption)
            raise
        return self.subject

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self.leave(error)

    def enter(self, hook: Callable[[T], Layer]) -> None:
        try:
            layer = hook(self.subject)
            layer.__enter__()
            self.entered.append((hook, layer))
        except BaseException as error:
            self.note(error, hook)

    def leave(self, error: BaseException | None) -> None:
        interruption: BaseException | None = None
        while self.entered:
            hook, layer = self.entered.pop()
            try:
                layer.__exit__(type(error) if error else None, error, error.__traceback__ if error else None)
            except BaseException as raised:
                try:
                    self.note(raised, hook, error)
                except BaseException as meant_for_others:
                    interruption = meant_for_others
        if interruption is not None:
            raise interruption

    def note(self, error: BaseException, hook: Callable[..., Any], passing: BaseException | None = None) -> None:
        if error is passing:
            return
        if isinstance(error, KeyboardInterrupt) or self.interrupts(error):
            raise error
        logger.error("middleware %s failed and was skipped: %r", hook.__qualname__, error, exc_info=error)


@forgotten
@cache
def installed(alias: str) -> tuple[Middleware, ...]:
    """Return the backend's middleware, the outermost first. Raises InvalidOptions if one cannot be made."""
    return tuple(make(path, alias) for path in options(alias).middleware)


def make(path: str, alias: str) -> Middleware:
    where = f"TASKS[{alias!r}]['OPTIONS']['MIDDLEWARE']"
    try:
        kind = import_string(path)
        made = kind() if isinstance(kind, type) else None
    except Exception as error:  # whatever the module or the constructor raises
        raise InvalidOptions(f"{where}: {path} cannot be used: {type(error).__name__}: {error}") from error
    if not isinstance(made, Middleware):
        raise InvalidOptions(f"{where}: {path} is no subclass of django_tasks_retry.middleware.Middleware.")
    return made


@forgotten
@cache
def hooks(alias: str, name: str) -> tuple[Callable[..., Any], ...]:
    """The methods of this name, of those that override it: without any nothing is made, entered or called."""
    plain = getattr(Middleware, name)
    return tuple(getattr(each, name) for each in installed(alias) if getattr(type(each), name) is not plain)
