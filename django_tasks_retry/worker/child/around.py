"""An attempt with the middleware of its backend around it, in the attempt's own thread or asyncio task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...middleware import Attempt as AttemptSeen
from ...middleware import Ending, Layers, hooks
from ...taskqueue import Failed, Lease, Outcome, Report
from .attempt import Attempt, conclude, run, run_async


def run_within(attempt: Attempt, inner: Callable[[Attempt], Outcome] = run) -> Outcome:
    """Run a function in this thread."""
    around = hooks(attempt.lease.backend, "attempt")
    if not around:
        return inner(attempt)
    with layers_around(attempt, around) as conclude_within:
        return conclude_within(inner(attempt))


async def run_async_within(attempt: Attempt) -> Outcome:
    """Run a coroutine function in this event loop."""
    around = hooks(attempt.lease.backend, "attempt")
    if not around:
        return await run_async(attempt)
    with layers_around(attempt, around) as conclude_within:
        return conclude_within(await run_async(attempt))


@contextmanager
def layers_around(attempt: Attempt, around: Sequence[Callable[..., Any]]) -> Iterator[Callable[[Outcome], Outcome]]:
    """Within the layers the attempt is also concluded: when they are left they know whether it is tried again."""
    subject = attempt_of(attempt.lease)
    layers = Layers(around, subject, lambda error: type(error) is type(attempt.interruption))
    raised: BaseException | None = None

    def conclude_within(outcome: Outcome) -> Outcome:
        nonlocal raised
        raised = error_of(outcome)
        if attempt.report is None:  # else it was given back, since another coroutine blocked the loop
            attempt.report = conclude(attempt, outcome)
        subject.ending = ending_of(attempt.report)
        return outcome

    layers.__enter__()
    try:
        yield conclude_within
    except BaseException as interruption:
        raised = interruption
        raise
    finally:
        layers.leave(raised)


def error_of(outcome: Outcome) -> BaseException | None:
    """What the function raised, where it did."""
    error = outcome.error if isinstance(outcome, Failed) else None
    return error if isinstance(error, BaseException) else None


def attempt_of(lease: Lease) -> AttemptSeen:
    return AttemptSeen(
        id=lease.id,
        func_path=lease.func_path,
        args=lease.args,
        kwargs=lease.kwargs,
        queue=lease.queue,
        priority=lease.priority,
        backend=lease.backend,
        worker_id=lease.locked_by,
        number=lease.attempts,
        spent=lease.spent,
        max_attempts=lease.max_attempts,
        run_id=lease.run_id,
        created_at=lease.created_at,
        eta=lease.eta,
        claimed_at=lease.last_attempt_at,
        metadata=lease.metadata,
        schedule=lease.schedule_id,
        slot=lease.slot,
    )


def ending_of(report: Report) -> Ending:
    return Ending(
        status=report.move.target,
        error=report.error,
        fingerprint=report.fingerprint,
        delay=report.delay or 0.0,
    )
