"""One attempt in this thread and this transaction, in a savepoint of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic
from typing import Any, TypeAlias

from django.db import DatabaseError, connections, transaction
from django.test import TestCase

from ..taskqueue import Completed, Failed, Lease, Outcome, current_lease, record, release_task
from ..taskqueue.producer.wakeup import Announcement
from ..worker.child.around import run_within
from ..worker.child.attempt import Attempt, Call, begin, conclude, run_atomically
from ..worker.child.finished_signals import send_signals

Way: TypeAlias = Callable[[Attempt, Call], Outcome]


def call_function(attempt: Attempt, call: Call) -> Outcome:
    if call.is_atomic:
        return run_atomically(attempt, call)
    return Completed(attempt.lease, call.task.call(*call.args, **call.kwargs))


def begin_inline(lease: Lease) -> Attempt:
    return Attempt(lease, monotonic())


def run_inline(lease: Lease) -> Attempt:
    """Run, record and tell one attempt, as a worker would. Ctrl-C releases the task and is passed on."""
    attempt = begin_inline(lease)
    with hooks_run_after():
        try:
            outcome = perform(attempt)
            attempt.report = attempt.report or conclude(attempt, outcome)
        except KeyboardInterrupt:
            release_task(lease, "interrupted")
            raise
        if attempt.receipt is None:
            [attempt.receipt] = record([attempt.report])
    send_signals(attempt)
    return attempt


def perform(attempt: Attempt, way: Way = call_function) -> Outcome:
    """Call the function and see how it ends, in a savepoint of each transaction that the test has open.

    What a task wrote before it failed stays, as it would without the test's transactions around it. Only where a
    database refused a statement must the attempt be undone as a whole, for the test to go on.
    """
    aliases = [each.alias for each in connections.all(initialized_only=True) if each.in_atomic_block]
    with ExitStack() as savepoints:
        for alias in aliases:
            savepoints.enter_context(transaction.atomic(using=alias))
        outcome = outcome_of(attempt, way)
        if isinstance(outcome, Failed) and isinstance(outcome.error, DatabaseError):
            for alias in aliases:
                transaction.set_rollback(rollback=True, using=alias)
    return outcome


def outcome_of(attempt: Attempt, way: Way) -> Outcome:
    return run_within(attempt, lambda attempt: call(attempt, way))


def call(attempt: Attempt, way: Way) -> Outcome:
    begun = begin(attempt)
    if not isinstance(begun, Call):
        return begun
    token = current_lease.set(attempt.lease)
    try:
        return way(attempt, begun)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit is the failure of a task, not of the test
        return Failed(attempt.lease, error)
    finally:
        current_lease.reset(token)


@contextmanager
def hooks_run_after() -> Iterator[None]:
    """Run what the block leaves to `transaction.on_commit`, which a TestCase would never call."""
    with ExitStack() as stack:
        left = [stack.enter_context(TestCase.captureOnCommitCallbacks(using=alias)) for alias in connections]
        yield
    for callback in itertools.chain.from_iterable(left):
        if not is_wake_up(callback):
            with hooks_run_after():
                callback()


def is_wake_up(callback: Callable[[], Any]) -> bool:
    """No worker listens within the test's transaction."""
    return isinstance(callback, Announcement)
