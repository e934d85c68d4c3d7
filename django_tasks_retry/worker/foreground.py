"""One stored task in the foreground, under a real lease: what a worker would do, where a person can watch.

Its timeout is not enforced, and its lease is renewed for as long as the process lives: somebody may sit in a debugger.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from time import monotonic

from django.db import Error, connections

from ..conf import options
from ..models import Task
from ..taskqueue import (
    Failed,
    Lease,
    Outcome,
    Receipt,
    claim_task,
    database,
    record,
    release_task,
    renew,
)
from .child.around import run_async_within, run_within
from .child.attempt import Attempt, conclude
from .child.finished_signals import send_signals
from .identity import new_worker_id
from .shared.outcomes import OutcomeRecorder, Recorded
from .shared.stats import FIELDS, Counts, add_counted

RENEWALS_PER_LEASE = 4


def run_in_foreground(task: Task, backend: str, on_failure: Callable[[BaseException], None]) -> Receipt | None:
    """Claim it, run it, record how it ended. None where it could not be claimed. Ctrl-C releases it and is passed on.

    `on_failure` is given what the function raised, before it is recorded.
    """
    lease = claim_task(task, new_worker_id("shell"), backend=backend)
    if lease is None:
        return None
    attempt = Attempt(lease, monotonic())
    with Renewal(lease):
        outcome = perform(attempt)
        error = outcome.error if isinstance(outcome, Failed) else None
        if isinstance(error, KeyboardInterrupt):
            release_task(lease, "interrupted in the shell")
            raise error
        if isinstance(error, BaseException):
            on_failure(error)
        attempt.report = attempt.report or conclude(attempt, outcome)
        if attempt.receipt is None:
            [attempt.receipt] = record([attempt.report])
    exit_of(backend).recorded(Recorded(attempt.receipt, run_seconds=attempt.run_time), attempt)
    return attempt.receipt


def perform(attempt: Attempt) -> Outcome:
    attempt.started = monotonic()
    outcome = asyncio.run(run_async_within(attempt)) if attempt.is_async else run_within(attempt)
    attempt.ended = monotonic()
    return outcome


def exit_of(backend: str) -> OutcomeRecorder:
    return OutcomeRecorder(ImmediateStats(backend), send_signals)


class ImmediateStats:
    """There is one attempt to count, and no next tick to wait for."""

    def __init__(self, backend: str) -> None:
        self.backend = backend

    def count(self, queue: str, func_path: str, word: str, ran: float, waited: float, lane: str = "") -> None:
        if word in FIELDS:
            counts = Counts()
            counts.count(queue, func_path, word, ran, waited, lane)
            add_counted(counts.take(), self.backend)


class Renewal:
    """Keeps the lease from a thread of its own; where that fails, the report will be refused, which is said then."""

    def __init__(self, lease: Lease) -> None:
        self.lease, self.ended = lease, threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True, name="django_tasks_retry.renewal")

    def __enter__(self) -> None:
        self.thread.start()

    def __exit__(self, *_raised: object) -> None:
        self.ended.set()
        self.thread.join()

    def run(self) -> None:
        pause = options(self.lease.backend).lease / RENEWALS_PER_LEASE
        while not self.ended.wait(pause):
            try:
                renew([self.lease])
            except Error:
                continue
            finally:
                connections[database(self.lease.backend)].close()
