"""One attempt, from lease to report: begin, run, conclude. Nothing that a task does can end its worker.

All three run in the attempt's own thread or asyncio task, and so does whatever code of the task they call: its
function, its exceptions, the methods of what it returns. Others see the report only, which is plain data.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from traceback import clear_frames
from types import TracebackType
from typing import TypeAlias

from asgiref.sync import sync_to_async
from django.db import Error

from ... import bridge, registry, taskqueue
from ...compat import is_heard, is_watched, task_backends, task_finished, task_started
from ...conf import named_in_settings
from ...errors import InvalidPayload, LeaseLost, TaskCancelled
from ...registry import AnyTask
from ...rules.failure import Code, Failure, capture
from ...taskqueue.workflows import StepStore
from ..logs import log_exception
from ..shared.inflight import InFlightTable
from .attempt_logs import take, with_log
from .call import BoundCall, bound, has_instances

logger = logging.getLogger(__name__)
INFINITY = float("inf")
MOST_LEFT_BEHIND = 20


@dataclass(slots=True, eq=False)
class Attempt:
    """A lease while it is being worked on. Times are readings of the monotonic clock."""

    lease: taskqueue.Lease
    claimed: float
    place: int | None = None  # the index of its entry in the in-flight table
    is_async: bool = field(init=False)
    started: float = 0.0
    ended: float = 0.0
    report: taskqueue.Report | None = None
    receipt: taskqueue.Receipt | None = None
    interruption: BaseException | None = None
    is_committing: bool = False
    is_revoked: bool = False
    is_suspect: bool = False  # whether it ran beside others while their process was damaged
    traceback: TracebackType | None = None
    """The traceback of its failure, for receivers of signals: lines of code only, without local variables."""
    result: bridge.AnyResult | None = None
    steps: StepStore | None = None

    def __post_init__(self) -> None:
        self.is_async = registry.is_coroutine(self.lease.func_path)

    @property
    def deadline(self) -> float:
        return self.started + self.lease.timeout if self.started else INFINITY

    @property
    def is_running(self) -> bool:
        return bool(self.started and not self.ended)

    @property
    def has_raised(self) -> bool:
        return self.report is not None and self.report.error is not None

    @property
    def run_time(self) -> float:
        return self.ended - self.started


def start(attempt: Attempt, inflight: InFlightTable) -> None:
    """Start the attempt: from here on its timeout runs, and the supervisor sees it run."""
    attempt.started = monotonic()
    if attempt.place is not None:
        attempt.is_revoked = not inflight.start(attempt.place, attempt.started, attempt.deadline)


def refusal(attempt: Attempt, inflight: InFlightTable, lease_seconds: float) -> taskqueue.Released | None:
    """Return why an attempt that was just started must not run."""
    if attempt.is_revoked or attempt.interruption is not None:
        return taskqueue.Released(attempt.lease, "its lease was taken away before it started")
    if attempt.started >= valid_from(attempt, inflight) + lease_seconds:
        # The whole process was frozen while the attempt waited: somebody else may have taken the task.
        return taskqueue.Released(attempt.lease, "the lease ran out before the task could start")
    return None


def valid_from(attempt: Attempt, inflight: InFlightTable) -> float:
    """Return since when its lease runs: the claim, or the last renewal."""
    return max(attempt.claimed, inflight.renewed_at(attempt.place)) if attempt.place is not None else attempt.claimed


# Begin


def begin(attempt: Attempt) -> BoundCall | taskqueue.Outcome:
    """Look the function up, check its arguments, send `task_started`."""
    lease = attempt.lease
    task = registry.find(lease.func_path)
    if task is None:
        return taskqueue.Released(lease, "this worker does not know the function", delay=1.0)
    is_start_heard = is_heard(task_started)
    try:
        if task.takes_context or is_start_heard or is_watched(task_finished):
            attempt.result = result_of(attempt, task)
    except Error:
        return taskqueue.Released(lease, "its earlier attempts could not be looked up", delay=1.0)
    context = (bridge.context_of(lease, result_of(attempt, task)),) if task.takes_context else ()
    attempt.steps = context[0].steps if context else None
    call = bound(lease, task, context)
    if not isinstance(call, BoundCall):
        return call
    if is_start_heard:
        task_started.send_robust(type(task_backends[named_in_settings(lease.backend)]), task_result=attempt.result)
    return call


def result_of(attempt: Attempt, task: AnyTask) -> bridge.AnyResult:
    """Return what the context and receivers of signals see. Built only when needed: it costs more than a short task."""
    return attempt.result or bridge.running_result(attempt.lease, task, with_history=needs_history(task))


def needs_history(task: AnyTask) -> bool:
    """Return whether anybody may ask about earlier attempts."""
    return task.takes_context or is_watched(task_started) or is_watched(task_finished)


def begins_with_database(attempt: Attempt) -> bool:
    """Return whether earlier attempts must be looked up; and receivers of signals may look up anything."""
    lease = attempt.lease
    task = registry.find(lease.func_path)
    if task is None or is_watched(task_started) or (lease.attempts > 1 and needs_history(task)):
        return task is not None
    return has_instances(lease, task)


# Run


def call_function(attempt: Attempt, call: BoundCall) -> taskqueue.Outcome:
    if call.is_atomic:
        return run_atomically(attempt, call)
    # A coroutine function comes here only outside a worker, which has no event loop for it.
    return taskqueue.Completed(attempt.lease, call.task.call(*call.args, **call.kwargs) if attempt.is_async else call())


Way: TypeAlias = Callable[[Attempt, BoundCall], taskqueue.Outcome]


def run(attempt: Attempt, way: Way = call_function) -> taskqueue.Outcome:
    """Run a function in this thread. Any exception, SystemExit included, is a failure of the task alone."""
    call = begin(attempt)
    if not isinstance(call, BoundCall):
        return call
    token = taskqueue.current_lease.set(attempt.lease)
    try:
        return way(attempt, call)
    except BaseException as error:
        return taskqueue.Failed(attempt.lease, error)
    finally:
        taskqueue.current_lease.reset(token)


async def run_async(attempt: Attempt) -> taskqueue.Outcome:
    call = await sync_to_async(begin)(attempt) if begins_with_database(attempt) else begin(attempt)
    if not isinstance(call, BoundCall):
        return call
    taskqueue.current_lease.set(attempt.lease)
    try:
        return taskqueue.Completed(attempt.lease, await call())
    except BaseException as error:
        return taskqueue.Failed(attempt.lease, error)


def run_atomically(attempt: Attempt, call: BoundCall) -> taskqueue.Outcome:
    """Commit the function's own writes together with the completion, or neither."""
    lease, returned = attempt.lease, False
    try:
        with taskqueue.one_commit(lease):
            result = call()
            returned = attempt.is_committing = True
            receipt = taskqueue.complete_within(lease, result)
        attempt.receipt = receipt
        return taskqueue.Completed(lease, result)
    except InvalidPayload as unfit:
        return taskqueue.Failed(lease, capture(unfit, Code.RESULT_NOT_SERIALIZABLE) if returned else unfit)
    except LeaseLost as lost:
        attempt.receipt = taskqueue.Receipt(lease, None, lost=lost.reason)
        return taskqueue.Failed(lease, lost)
    except BaseException as error:
        if returned and (receipt_found := committed_after_all(lease)):
            log_exception(logger, "%s %s is committed; what it left to on_commit failed", lease.func_path, lease.id)
            attempt.receipt = receipt_found
            return taskqueue.Completed(lease, result)
        return taskqueue.Failed(lease, error)


def committed_after_all(lease: taskqueue.Lease) -> taskqueue.Receipt | None:
    """Return the recorded completion if an error came after the commit, or instead of its answer."""
    try:
        return taskqueue.recorded_receipts([lease], lease.backend).get(lease.fence)
    except Error:
        return None


# Conclude


def conclude(attempt: Attempt, outcome: taskqueue.Outcome) -> taskqueue.Report:
    """Return what is to be recorded, as plain data. An error on the way there is the task's failure, too."""
    log = take(attempt.lease)
    try:
        outcome = explained(attempt, outcome)
        report = with_left_behind(taskqueue.report_of(outcome), attempt.steps)
        keep_traceback(attempt, outcome)
    except BaseException as error:
        report = taskqueue.report_of(explained(attempt, taskqueue.Failed(attempt.lease, unreportable(attempt, error))))
    return with_log(report, log)


def with_left_behind(report: taskqueue.Report, steps: StepStore | None) -> taskqueue.Report:
    """Add to a completion which steps were remembered and are no longer in the code."""
    if steps is None or report.result is None or not (names := steps.unused):
        return report
    return report._replace(data=({"left_behind": names[:MOST_LEFT_BEHIND]},))


def keep_traceback(attempt: Attempt, outcome: taskqueue.Outcome) -> None:
    """Keep the traceback of a failure for signals. Local variables are freed here, in the task's own thread."""
    error = outcome.error if isinstance(outcome, taskqueue.Failed) else None
    if isinstance(error, BaseException) and is_heard(task_finished, logging.ERROR):
        clear_frames(error.__traceback__)
        attempt.traceback = error.__traceback__


def unreportable(attempt: Attempt, error: BaseException) -> BaseException | Failure:
    if attempt.interruption is not None and type(error) is type(attempt.interruption):
        return error
    what = capture(error)
    message = f"The outcome of the attempt could not be recorded: {what.exception}: {what.message}"
    return Failure(message, Code.EXCEPTION, what.exception, what.traceback)


def explained(attempt: Attempt, outcome: taskqueue.Outcome) -> taskqueue.Outcome:
    """Give an interruption its message, as it is raised by its class alone. One for want of a lease is no failure."""
    error = outcome.error if isinstance(outcome, taskqueue.Failed) else None
    interruption = attempt.interruption
    if interruption is None or not isinstance(error, BaseException) or not stems_from(error, type(interruption)):
        return outcome
    if isinstance(interruption, TaskCancelled):
        return taskqueue.Released(attempt.lease, str(interruption))
    return taskqueue.Failed(attempt.lease, interruption.with_traceback(error.__traceback__))


def stems_from(error: BaseException, kind: type[BaseException]) -> bool:
    """Return whether the error is that interruption, or a task group that wraps it."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(kind)[1] is None
    return type(error) is kind
