"""Run due tasks in this thread, without a worker process: for tests and small scripts."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

from asgiref.sync import async_to_sync

from ..conf import options
from ..taskqueue import Lanes, Lease, claim, finish
from .attempt import Attempt, LeaseClock, run, run_async, tell_finished


def drain(worker_id: str, *, lanes: Lanes | None = None, backend: str = "default") -> list[Attempt]:
    """Run until nothing is due."""
    return list(each_due(worker_id, lanes=lanes, backend=backend))


def each_due(worker_id: str, *, lanes: Lanes | None = None, backend: str = "default") -> Iterator[Attempt]:
    lanes = lanes or Lanes()
    while leases := claim(worker_id, backend=backend, lanes=lanes):
        yield work_off(leases[0])


def work_off(lease: Lease) -> Attempt:
    """One attempt with all its steps: run, record, tell."""
    attempt = Attempt(lease, monotonic(), LeaseClock(options(lease.backend).lease))
    attempt.started = attempt.claimed
    attempt.outcome = async_to_sync(run_async)(attempt) if attempt.is_async else run(attempt)
    attempt.ended = monotonic()
    if attempt.receipt is None:
        [attempt.receipt] = finish([attempt.outcome])
    tell_finished(attempt)
    return attempt
