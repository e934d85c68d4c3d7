"""One attempt in this thread and this transaction, in a savepoint of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any, TypeAlias

from django.db import DatabaseError, connections, transaction
from django.test import TestCase

from ..conf import options
from ..taskqueue import Completed, Failed, Lease, Outcome, current_lease, database, finish, release_task
from ..taskqueue.wakeup import Notifier
from ..worker.attempt import Attempt, Call, LeaseClock, begin, run_atomically, tell_finished

Way: TypeAlias = Callable[[Attempt, Call], Outcome]


def call_function(attempt: Attempt, call: Call) -> Outcome:
    if call.is_atomic:
        return run_atomically(attempt, call)
    return Completed(attempt.lease, call.task.call(*call.args, **call.kwargs))


def begin_inline(lease: Lease) -> Attempt:
    return Attempt(lease, monotonic(), LeaseClock(options(lease.backend).lease))


def run_inline(lease: Lease) -> Attempt:
    """Run, record and tell one attempt, as a worker would. Ctrl-C releases the task and is passed on."""
    attempt = begin_inline(lease)
    with hooks_run_after(database(lease.backend)):
        try:
            attempt.outcome = perform(attempt)
        except KeyboardInterrupt:
            release_task(lease, "interrupted")
            raise
        if attempt.receipt is None:
            [attempt.receipt] = finish([attempt.outcome])
    tell_finished(attempt)
    return attempt


def perform(attempt: Attempt, way: Way = call_function) -> Outcome:
    """Call the function and see how it ends, in a savepoint."""
    begun = begin(attempt)
    if not isinstance(begun, Call):
        return begun
    token = current_lease.set(attempt.lease)
    savepoint = Savepoint(database(attempt.lease.backend))
    try:
        outcome = way(attempt, begun)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit is the failure of a task, not of the test
        outcome = Failed(attempt.lease, error)
    finally:
        current_lease.reset(token)
    savepoint.close(outcome)
    return outcome


class Savepoint:
    """What a task wrote before it failed stays, as it would without the test's transaction around it.

    Only where the database refused a statement must the attempt be undone as a whole, for the test to go on.
    """

    def __init__(self, using: str) -> None:
        self.using = using
        self.id = transaction.savepoint(using)

    def close(self, outcome: Outcome) -> None:
        if not connections[self.using].in_atomic_block:
            return
        refused = isinstance(outcome, Failed) and isinstance(outcome.error, DatabaseError)
        if refused or connections[self.using].needs_rollback:
            transaction.set_rollback(rollback=False, using=self.using)
            transaction.savepoint_rollback(self.id, self.using)
        else:
            transaction.savepoint_commit(self.id, self.using)


@contextmanager
def hooks_run_after(using: str) -> Iterator[None]:
    """Run what the block leaves to `transaction.on_commit`, which a TestCase would never call."""
    with TestCase.captureOnCommitCallbacks(using=using) as callbacks:
        yield
    for callback in callbacks:
        if not is_wake_up(callback):
            with hooks_run_after(using):
                callback()


def is_wake_up(callback: Callable[[], Any]) -> bool:
    """No worker listens within the test's transaction."""
    return isinstance(getattr(getattr(callback, "func", None), "__self__", None), Notifier)
