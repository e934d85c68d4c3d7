"""Middleware that tells what it sees, and middleware that misbehaves."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from django.db import transaction

from django_tasks_retry import retry
from django_tasks_retry.compat import task
from django_tasks_retry.middleware import Attempt, EnqueuedTask, Middleware

logger = logging.getLogger("shop")
TOLD: list[object] = []
HERE = "tests.middleware.samples."
inherited: ContextVar[str] = ContextVar("inherited", default="")


@task
def see_inherited() -> str:
    return inherited.get()


@task
async def see_inherited_async() -> str:
    return inherited.get()


@task
@retry(atomic=True)
def write_atomically() -> None:
    """Commits with its completion."""


@task
def log_and_fail(lines: int) -> None:
    for n in range(lines):
        logger.info("line %d", n)
    raise ValueError("boom")


@task
async def log_and_fail_async(lines: int) -> None:
    log_and_fail.func(lines)


@task
def log_and_return() -> None:
    logger.info("all is well")


class Telling(Middleware):
    name = "outer"

    @contextmanager
    def enqueue(self, calls: Sequence[EnqueuedTask]) -> Iterator[None]:
        TOLD.append(f"{self.name} before {len(calls)}")
        for call in calls:
            call.metadata[self.name] = call.queue
        try:
            yield
        except Exception as error:
            TOLD.append(f"{self.name} saw {type(error).__name__}")
            raise
        TOLD.append(f"{self.name} after")

    @contextmanager
    def attempt(self, attempt: Attempt) -> Iterator[None]:
        TOLD.append(f"{self.name} begins {attempt.number}")
        token = inherited.set(f"{inherited.get()} {self.name}")
        try:
            yield
        except BaseException as error:
            TOLD.append(f"{self.name} saw {type(error).__name__}")
            raise
        finally:
            inherited.reset(token)
            ending = attempt.ending
            TOLD.append(f"{self.name} ends {ending.status if ending else None}")


class TellingToo(Telling):
    name = "inner"


class Endings(Middleware):
    """Keeps what the attempts reported."""

    @contextmanager
    def attempt(self, attempt: Attempt) -> Iterator[None]:
        try:
            yield
        finally:
            TOLD.append(attempt.ending)


class Idle(Middleware):
    """Overrides nothing."""


class RaisesAtOnce(Middleware):
    def enqueue(self, calls: Sequence[EnqueuedTask]) -> contextmanager[None]:
        raise RuntimeError("no layer")

    def attempt(self, attempt: Attempt) -> contextmanager[None]:
        raise SystemExit("no layer")


class RaisesBefore(Middleware):
    @contextmanager
    def enqueue(self, calls: Sequence[EnqueuedTask]) -> Iterator[None]:
        calls[0].metadata["half"] = True
        raise RuntimeError("before")
        yield

    @contextmanager
    def attempt(self, attempt: Attempt) -> Iterator[None]:
        raise RuntimeError("before")
        yield


class RaisesAfter(Middleware):
    @contextmanager
    def enqueue(self, calls: Sequence[EnqueuedTask]) -> Iterator[None]:
        yield
        raise RuntimeError("after")

    @contextmanager
    def attempt(self, attempt: Attempt) -> Iterator[None]:
        try:
            yield
        finally:
            raise SystemExit("after")


class Swallows(Middleware):
    @contextmanager
    def enqueue(self, calls: Sequence[EnqueuedTask]) -> Iterator[None]:
        try:
            yield
        except (ValueError, transaction.TransactionManagementError):
            TOLD.append("swallowed")

    attempt = enqueue


class AddsNonsense(Middleware):
    @contextmanager
    def enqueue(self, calls: Sequence[EnqueuedTask]) -> Iterator[None]:
        for call in calls:
            call.metadata["nonsense"] = object()
        yield


class Life(Middleware):
    def worker_started(self, worker_id: str) -> None:
        TOLD.append(f"worker_started {worker_id}")

    def child_started(self, worker_id: str) -> None:
        TOLD.append(f"child_started {worker_id}")

    def child_ending(self, worker_id: str) -> None:
        TOLD.append(f"child_ending {worker_id}")


class FailingLife(Middleware):
    def worker_started(self, worker_id: str) -> None:
        raise SystemExit("life")

    child_started = child_ending = worker_started


class Unmakable(Middleware):
    def __init__(self) -> None:
        raise OSError("no socket")


class NoMiddleware:
    """Inherits nothing."""
