"""One attempt in this thread and this transaction, in a savepoint of its own."""

import itertools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic

from django.db import DatabaseError, connections, transaction
from django.test import TestCase

from ..taskqueue import Failed, Lease, Outcome
from ..taskqueue.enqueue import Notification
from ..worker.child.attempt import Attempt, Way, call_function
from ..worker.child.pipeline import run_and_record, run_attempt, run_here, send_signals


def run_inline(lease: Lease) -> Attempt:
    """Run, record and signal one attempt, as a worker would. Ctrl-C releases the task and is passed on."""
    attempt = Attempt(lease, monotonic())
    with hooks_run_after():
        run_and_record(attempt, perform)
    send_signals(attempt)
    return attempt


def perform(attempt: Attempt, call: Way = call_function) -> Outcome:
    """Call the function and see how it ends, in a savepoint of each transaction that the test has open.

    Writes of a task that failed stay, as they would without the test's transactions around them. If a database refused
    a statement, the whole attempt is undone, so that the test can go on.
    """
    aliases = [each.alias for each in connections.all(initialized_only=True) if each.in_atomic_block]
    with ExitStack() as savepoints:
        for alias in aliases:
            savepoints.enter_context(transaction.atomic(using=alias))
        outcome = run_attempt(attempt, lambda attempt: run_here(attempt, call))
        if isinstance(outcome, Failed) and isinstance(outcome.error, DatabaseError):
            for alias in aliases:
                transaction.set_rollback(rollback=True, using=alias)
    return outcome


@contextmanager
def hooks_run_after() -> Iterator[None]:
    """Run the `transaction.on_commit` hooks of the block, which a TestCase would never call."""
    with ExitStack() as stack:
        left = [stack.enter_context(TestCase.captureOnCommitCallbacks(using=alias)) for alias in connections]
        yield
    for callback in itertools.chain.from_iterable(left):
        if not isinstance(callback, Notification):  # no worker listens within the test's transaction
            with hooks_run_after():
                callback()
