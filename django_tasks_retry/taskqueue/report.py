"""A report: one move of a leased task as plain values, ready to be written under its fence; and the receipt for it."""

import logging
import random
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple, Protocol, TypeAlias
from uuid import UUID

from .. import registry
from ..conf import options
from ..errors import InvalidPayload, InvalidPolicy, LostReason, Snooze, Suspend
from ..payloads import hidden, hides
from ..rules.backoff import Backoff, Custom, bounded_delay, from_json
from ..rules.failure import LOST, Code, Failure, capture, fingerprint
from ..rules.payload import dump, encoded, noted
from ..rules.policy import delay_before_next, seconds_of
from ..rules.status import Status
from ..rules.transitions import COMPLETE, GIVE_UP, RELEASE, REQUEUE, EventKind, Move
from .lease import Lease
from .new_tasks import new_id
from .typed import function_of, write_returned

logger = logging.getLogger("django_tasks_retry")
DEEPEST_GROUP = 10
RETURNED = "The return value"
LOST_FINGERPRINT = fingerprint(LOST.exception, LOST.code, LOST.message, LOST.traceback)


class Completed(NamedTuple):
    lease: Lease
    result: Any = None
    actor: str | None = None


class Failed(NamedTuple):
    """`error` is what the function raised, or a failure that was captured elsewhere."""

    lease: Lease
    error: BaseException | Failure
    actor: str | None = None
    facts: Mapping[str, Any] | None = None  # further facts for its event


class Released(NamedTuple):
    """The attempt ended through no fault of the task: it is refunded, and keeps its position, apart from a delay."""

    lease: Lease
    reason: str
    delay: float | None = None
    actor: str | None = None
    waits_for: str | None = None  # the key that wakes it before the delay is over
    by_task: bool = False  # whether the task itself asked for it, by a snooze or to wait
    is_suspect: bool = False
    """Whether it, or a neighbour, damaged the process. After two such attempts in a row it runs alone."""


Outcome: TypeAlias = Completed | Failed | Released


class Report(NamedTuple):
    lease: Lease
    move: Move
    moved_by: str
    actor: str
    delay: float | None = None  # seconds until the next attempt; None if the task keeps its eta
    error: dict[str, Any] | None = None
    result: str | None = None
    data: tuple[dict[str, Any], ...] = ({},)  # the data of the move's events, in their order
    next_id: UUID | None = None
    waits_for: str | None = None
    crash: int | None = None  # the number to add to the task's crashes; None if the attempt ended by itself

    @property
    def events(self) -> Iterator[tuple[EventKind, dict[str, Any]]]:
        return zip(self.move.events, self.data, strict=True)

    @property
    def fingerprint(self) -> str | None:
        if self.error is None:
            return None
        return fingerprint(*(self.error[key] for key in ("exception", "code", "message", "traceback")))

    @property
    def reason(self) -> str:
        """Return why it was released; empty if it was not."""
        return next((str(data["reason"]) for data in self.data if "reason" in data), "")

    @property
    def is_final(self) -> bool:
        return self.move.target is not Status.PENDING


class Receipt(NamedTuple):
    """One attempt that ended, with the task's status after it. `lost` tells why a report was rejected instead."""

    lease: Lease
    status: Status | None
    eta: datetime | None = None
    ts: datetime | None = None
    error: dict[str, Any] | None = None
    lost: LostReason | None = None
    cause: str = ""  # the reason of a recovery without a report: the lease expired, or the worker died
    is_busy: bool = False  # somebody else keeps the row locked: nothing was recorded, and the lease still holds
    next_id: UUID | None = None  # the next occurrence that was enqueued with it, of a repeating task
    releases: int = 0  # the number of consecutive releases, if a warning is due

    @property
    def accepted(self) -> bool:
        return self.lost is None and not self.is_busy

    @property
    def final_status(self) -> Status | None:
        """Return the final status; None if the task did not end with this attempt."""
        return self.status if self.accepted and self.status is not Status.PENDING else None


def report_of(outcome: Outcome) -> Report:
    """Decide what an outcome means. Failed attempts get their next eta here."""
    match outcome:
        case Failed(error=error) if (suspend := suspension(error)) is not None:
            return released(suspended(outcome, suspend))
        case Failed(error=error) if issubclass(type(error), Snooze):
            return snoozed(outcome)
        case Failed():
            return failed(outcome)
        case Released():
            return released(outcome)
        case Completed():
            return completed(outcome)


def suspension(error: BaseException | Failure) -> Suspend | None:
    """The suspension by which a function ended; a group of coroutines wraps it. By classes alone: it may be hostile."""
    for _ in range(DEEPEST_GROUP):
        if not issubclass(type(error), BaseExceptionGroup):
            break
        found: BaseExceptionGroup[Any] = error  # type: ignore[assignment]
        if any(not issubclass(type(each), Suspend | BaseExceptionGroup) for each in found.exceptions):
            return None
        error = found.exceptions[0]
    return error if issubclass(type(error), Suspend) else None  # type: ignore[return-value]


def suspended(outcome: Failed, suspend: Suspend) -> Released:
    return Released(outcome.lease, str(suspend), suspend.delay, outcome.actor, suspend.waits_for, by_task=True)


def snoozed(outcome: Failed) -> Report:
    """A subclass of Snooze that forgot its delay has failed: nobody can say when to come back."""
    lease, snooze, actor, _ = outcome
    failure = snooze if isinstance(snooze, Failure) else capture(snooze)
    delay = None if isinstance(snooze, Failure) else seconds_of(snooze, "delay")
    if delay is not None:
        return released(Released(lease, failure.message, delay, actor, by_task=True))
    message = f"{failure.exception} is a Snooze without a delay: let its constructor call super().__init__(delay)."
    return failed(Failed(lease, Failure(message, Code.EXCEPTION, failure.exception, failure.traceback), actor))


def completed(outcome: Completed) -> Report:
    lease = outcome.lease
    try:
        value = write_returned(function_of(lease.func_path), outcome.result, RETURNED)
        _, result = encoded(value, RETURNED, options(lease.backend).max_result_size)
    except InvalidPayload as error:
        return failed(Failed(lease, capture(error, Code.RESULT_NOT_SERIALIZABLE), outcome.actor))
    if value is not None and hides(lease.backend):
        form = hidden(result, lease.backend, lease.id, f"result-{lease.attempts}")
        result = result if form is None else dump(form)
    next_id = new_id(lease.backend) if lease.interval else None
    return Report(lease, COMPLETE, **signed(outcome), result=result, next_id=next_id)


def released(outcome: Released) -> Report:
    data: dict[str, Any] = {"reason": noted(outcome.reason), "refunded": True}
    if outcome.by_task:
        data["by_task"] = True
    if outcome.waits_for is not None:
        data["waits_for"] = outcome.waits_for
    delay = None if outcome.delay is None else bounded_delay(float(outcome.delay))
    if delay is not None:
        data["due"] = outcome.lease.eta.isoformat()
    crash = None if outcome.by_task else int(outcome.is_suspect)
    written: dict[str, Any] = signed(outcome) | {"delay": delay, "waits_for": outcome.waits_for, "crash": crash}
    return Report(outcome.lease, RELEASE, data=(data,), **written)


def failed(outcome: Failed) -> Report:
    lease, raised = outcome.lease, None if isinstance(outcome.error, Failure) else outcome.error
    failure = outcome.error if isinstance(outcome.error, Failure) else capture(outcome.error)
    delay = next_delay(lease, raised, failure.code)
    error = error_record(failure, lease, delay)
    data: dict[str, Any] = {"terminal": delay is None, "error": failure.as_dict(), **(outcome.facts or {})}
    if delay is None:
        return Report(lease, GIVE_UP, **signed(outcome), error=error, data=(data,))
    data |= {"backoff_ms": error["backoff_ms"], "due": lease.eta.isoformat()}
    return Report(lease, REQUEUE, **signed(outcome), delay=delay, error=error, data=(data, {}))


class Budgeted(Protocol):
    @property
    def attempts(self) -> int: ...
    @property
    def max_attempts(self) -> int: ...


def error_record(failure: Failure, of: Budgeted, delay: float | None = None) -> dict[str, Any]:
    """Return `last_error` without its times, which are the queue's. No delay means that it is final."""
    return {
        **failure.as_dict(),
        "attempt": of.attempts,
        "max_attempts": of.max_attempts,
        "terminal": delay is None,
        "backoff_ms": None if delay is None else round(delay * 1000),
    }


def signed(outcome: Outcome) -> dict[str, Any]:
    """The holder states its lease; a supervisor that reports for it states itself."""
    return {"moved_by": outcome.actor or outcome.lease.signature, "actor": outcome.actor or outcome.lease.locked_by}


def next_delay(lease: Lease, error: BaseException | None, code: Code) -> float | None:
    backoff = backoff_of(lease)
    return delay_before_next(
        error,
        code,
        policy=registry.find_policy(lease.func_path),
        backoff=backoff,
        custom=lambda: ask(backoff, error, lease),
        spent=lease.spent,
        max_attempts=lease.max_attempts,
        chance=random.uniform(-1, 1),  # noqa: S311 - spreads load, keeps no secret
    )


def backoff_of(lease: Lease) -> Backoff:
    """Return the row's backoff; the default if this process does not understand it or know its function."""
    default = options(lease.backend).backoff
    try:
        backoff = from_json(lease.backoff)
    except InvalidPolicy:
        logger.warning(
            "backoff of %s %s has a form that this version does not know; the default applies",
            lease.func_path, lease.id,
        )  # fmt: skip
        return default
    if isinstance(backoff, Custom) and registry.backoff_function(backoff) is None:
        return default
    return backoff or default


def ask(backoff: Backoff, error: BaseException | None, lease: Lease) -> float | None:
    """Call the user's backoff function; use the default if it fails, or if there is no exception to pass."""
    function = registry.backoff_function(backoff)
    try:
        if function and error:
            delay = function(error, registry.hooks.present_lease(lease, error))
            return None if delay is None else float(delay)
    except Exception:
        logger.exception("backoff function of %s failed; the default backoff applies", lease.func_path)
    return options(lease.backend).backoff.delay(lease.spent, 0)
