"""Runs one stored task in the foreground, under a real lease, while a person watches.

Its timeout is not enforced, and its lease is renewed for as long as the process lives: somebody may sit in a debugger.
"""

import threading
from collections.abc import Callable
from time import monotonic

from django.db import Error, connections

from ..conf import options
from ..models import Task
from ..taskqueue import Lease, Outcome, Receipt, Stat, add_stats, claim_task, database, renew
from .child.attempt import Attempt
from .child.pipeline import error_of, run_and_record, run_attempt, run_here, send_signals
from .options import new_worker_id
from .shared.outcomes import AttemptResult, OutcomePublisher

RENEWALS_PER_LEASE = 4


def run_in_foreground(task: Task, backend: str, on_failure: Callable[[BaseException], None]) -> Receipt | None:
    """Claim the task, run it, record its end. Return None if it cannot be claimed. Ctrl-C releases it and is passed on.

    `on_failure` is given what the function raised, before it is recorded.
    """
    lease = claim_task(task, new_worker_id("shell"), backend=backend)
    if lease is None:
        return None

    def run_watched(attempt: Attempt) -> Outcome:
        outcome = run_here(attempt)
        if (error := error_of(outcome)) is not None:
            on_failure(error)
        return outcome

    attempt = Attempt(lease, monotonic())
    with Renewal(lease):
        run_and_record(attempt, lambda attempt: run_attempt(attempt, run_watched))
    if attempt.receipt is not None:
        publisher = OutcomePublisher(
            lambda *ended: count_now(Stat.of_attempt(*ended), backend), lambda _: send_signals(attempt)
        )
        publisher.publish(AttemptResult(attempt.receipt, run_seconds=attempt.run_time))
    return attempt.receipt


def count_now(stat: Stat, backend: str) -> None:
    if stat.attempts:
        add_stats([stat], backend=backend)


class Renewal:
    """Renews the lease from a thread of its own. If that fails, the report is refused, and the caller says so."""

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
