"""One attempt, from lease to outcome: a pipeline of named steps. Nothing a task does can end its worker."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from asgiref.sync import sync_to_async
from django.db import Error, transaction

from .. import bridge, registry
from ..compat import is_heard, is_watched, task_backends, task_finished, task_started
from ..errors import InvalidPayload, LeaseLost
from ..registry import AnyTask
from ..rules.failure import Code, capture
from ..rules.policy import policy_of
from ..rules.status import Status
from ..taskqueue import (
    Completed,
    Failed,
    Lease,
    Outcome,
    Receipt,
    Released,
    complete_within,
    current_lease,
    database,
)


@dataclass(slots=True)
class LeaseClock:
    """Until when this process may trust its leases, by the monotonic clock that all processes of a host share."""

    seconds: float
    renewed_at: float = 0.0

    @property
    def margin(self) -> float:
        return min(1.0, self.seconds / 10)


@dataclass(slots=True, eq=False)
class Attempt:
    """A lease while it is being worked on. Times are readings of the monotonic clock."""

    lease: Lease
    claimed: float
    clock: LeaseClock
    started: float = 0.0
    ended: float = 0.0
    outcome: Outcome | None = None
    receipt: Receipt | None = None
    interruption: BaseException | None = None
    is_committing: bool = False
    result: bridge.AnyResult | None = None

    @property
    def deadline(self) -> float:
        return self.started + self.lease.timeout if self.started else float("inf")

    @property
    def valid_until(self) -> float:
        """When the lease ends unless it is renewed once more."""
        return max(self.claimed, self.clock.renewed_at) + self.clock.seconds

    @property
    def is_running(self) -> bool:
        return bool(self.started and not self.ended)

    @property
    def run_time(self) -> float:
        return self.ended - self.started

    @property
    def wait_time(self) -> float:
        """From due to claimed, by the queue's clock."""
        return self.lease.wait_seconds

    @property
    def is_async(self) -> bool:
        return is_coroutine(self.lease.func_path)


@cache
def is_coroutine(path: str) -> bool:
    task = registry.find(path)
    return task is not None and inspect.iscoroutinefunction(task.func)


def run(attempt: Attempt) -> Outcome:
    """Run a function in this thread. Whatever it raises, SystemExit included, is a failure of the task alone."""
    begun = begin(attempt)
    if not isinstance(begun, Call):
        return begun
    token = current_lease.set(attempt.lease)
    try:
        if begun.is_atomic:
            return run_atomically(attempt, begun)
        return Completed(attempt.lease, begun())
    except BaseException as error:
        return Failed(attempt.lease, error)
    finally:
        current_lease.reset(token)


async def run_async(attempt: Attempt) -> Outcome:
    """Run a coroutine function in this event loop."""
    begun = await sync_to_async(begin)(attempt) if begins_with_database(attempt) else begin(attempt)
    if not isinstance(begun, Call):
        return begun
    current_lease.set(attempt.lease)
    try:
        return Completed(attempt.lease, await begun())
    except BaseException as error:
        return Failed(attempt.lease, error)


@dataclass(frozen=True, slots=True)
class Call:
    """A task's function with everything it is called with."""

    task: AnyTask
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def is_atomic(self) -> bool:
        return policy_of(self.task.func).atomic

    def __call__(self) -> Any:
        return self.task.func(*self.args, **self.kwargs)


def begin(attempt: Attempt) -> Call | Outcome:
    """Look the function up, check its arguments, tell that it starts."""
    lease = attempt.lease
    task = registry.find(lease.func_path)
    if task is None:
        return Released(lease, "this worker does not know the function", delay=1.0)
    heard = is_heard(task_started)
    try:
        if task.takes_context or heard or is_watched(task_finished):
            attempt.result = result_of(attempt, task)
    except Error:
        return Released(lease, "its earlier attempts could not be looked up")
    context = (bridge.context_of(lease, result_of(attempt, task)),) if task.takes_context else ()
    args = (*context, *lease.args)
    try:
        signature_of(task.func).bind(*args, **lease.kwargs)
    except TypeError as misfit:
        return Failed(lease, capture(misfit, Code.BAD_ARGUMENTS))
    if heard:
        task_started.send_robust(type(task_backends[lease.backend]), task_result=attempt.result)
    return Call(task, args, lease.kwargs)


def result_of(attempt: Attempt, task: AnyTask) -> bridge.AnyResult:
    """What the context and receivers of signals see. Made only for who looks: it costs more than a short task."""
    return attempt.result or bridge.running_result(attempt.lease, task, with_history=looks_back(task))


def looks_back(task: AnyTask) -> bool:
    """Whether anybody may ask about earlier attempts."""
    return task.takes_context or is_watched(task_started) or is_watched(task_finished)


def begins_with_database(attempt: Attempt) -> bool:
    """Earlier attempts are looked up for who asks, and receivers of signals may look up anything."""
    task = registry.find(attempt.lease.func_path)
    history = attempt.lease.attempts > 1 and task is not None and looks_back(task)
    return history or is_watched(task_started)


@cache
def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


def run_atomically(attempt: Attempt, call: Call) -> Outcome:
    """The function's own writes and the completion commit together, or neither does."""
    using, returned = database(attempt.lease.backend), False
    try:
        with transaction.atomic(using=using):
            result = call()
            returned = attempt.is_committing = True
            receipt = complete_within(attempt.lease, result)
        attempt.receipt = receipt
        return Completed(attempt.lease, result)
    except InvalidPayload as unfit:
        return Failed(attempt.lease, capture(unfit, Code.RESULT_NOT_SERIALIZABLE) if returned else unfit)
    except LeaseLost as lost:
        attempt.receipt = Receipt(attempt.lease, None, lost=lost.reason)
        return Failed(attempt.lease, lost)


def is_told(receipt: Receipt | None) -> bool:
    """Whether the task has ended for good, and anybody hears of it."""
    ended = receipt.final_status if receipt else None
    return ended is not None and is_heard(task_finished, logging.INFO if ended is Status.SUCCESS else logging.ERROR)


def tell_finished(attempt: Attempt) -> None:
    """Send `task_finished` for what ended for good."""
    task, receipt = registry.find(attempt.lease.func_path), attempt.receipt
    if task is None or receipt is None or receipt.final_status is None or not is_told(receipt):
        return
    result = bridge.concluded(result_of(attempt, task), receipt.final_status, receipt, attempt.outcome)
    sender = type(task_backends[attempt.lease.backend])
    error = attempt.outcome.error if isinstance(attempt.outcome, Failed) else None
    if not isinstance(error, BaseException):
        task_finished.send_robust(sender, task_result=result)
        return
    try:
        raise error
    except BaseException:  # the framework's log line takes the traceback from the exception being handled
        task_finished.send_robust(sender, task_result=result)
