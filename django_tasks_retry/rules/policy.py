"""The retry policy that `@retry` attaches to a function, and its verdict on a failed attempt."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from inspect import iscoroutinefunction
from typing import Any, TypeVar

from ..durations import MORE_THAN_ZERO, as_seconds, checked_number, in_seconds
from ..errors import Abort, InvalidPolicy, Retry, Snooze
from .backoff import (
    Backoff,
    BackoffFunction,
    BackoffLike,
    Custom,
    Exponential,
    FixedDelays,
    as_backoff,
    bounded_delay,
    default_max_attempts,
)
from .failure import PERMANENT, Code

F = TypeVar("F", bound=Callable[..., Any])
ExceptionClasses = tuple[type[BaseException], ...]

POLICY_ATTRIBUTE = "retry_policy"


def check_timeout(value: float, name: str = "timeout") -> None:
    wrong = InvalidPolicy(f"{name}={value!r}: give seconds, more than zero and at most ten years, or a timedelta.")
    checked_number(value, wrong, least=MORE_THAN_ZERO)


def check_max_attempts(value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 10_000:
        raise InvalidPolicy(f"max_attempts={value!r}: give a whole number from 1 (no retries) to 10,000.")


def check_exception_classes(field: str, value: object) -> None:
    if isinstance(value, type) and issubclass(value, BaseException):
        raise InvalidPolicy(f"{field}={value.__name__}: give a tuple, such as {field}=({value.__name__},).")
    if not isinstance(value, tuple) or not all(isinstance(c, type) and issubclass(c, BaseException) for c in value):
        raise InvalidPolicy(f"{field}={value!r}: give a tuple of exception classes, such as {field}=(ValueError,).")


def check_backoff_function(function: BackoffFunction) -> None:
    if isinstance(function, type):
        name = function.__name__
        raise InvalidPolicy(f"backoff={name}: this is a class. Give an instance, such as backoff={name}().")
    if iscoroutinefunction(function):
        raise InvalidPolicy(
            f"backoff={function.__name__}: the queue does not await it. Give a plain function "
            "(exception, task_result) -> seconds, or None to give up."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """A retry policy. None means the backend's default."""

    max_attempts: int | None = None
    backoff: Backoff | None = None
    backoff_function: BackoffFunction | None = None
    timeout: float | None = None
    retry_on: ExceptionClasses = ()
    abort_on: ExceptionClasses = ()
    atomic: bool = False
    objective: float | None = None  # seconds within which an attempt that is due should start

    def __post_init__(self) -> None:
        if self.max_attempts is not None:
            check_max_attempts(self.max_attempts)
        if self.timeout is not None:
            check_timeout(self.timeout)
        if self.objective is not None:
            check_timeout(self.objective, "objective")
        for field in ("retry_on", "abort_on"):
            check_exception_classes(field, getattr(self, field))
        if not isinstance(self.atomic, bool):
            raise InvalidPolicy(f"atomic={self.atomic!r}: give True or False.")
        self._check_harmony()

    def _check_harmony(self) -> None:
        """Each field makes sense; do they also make sense together?"""
        if self.max_attempts == 1 and self.retry_on:
            raise InvalidPolicy(
                f"max_attempts=1 never retries, so retry_on={names(self.retry_on)} has no effect: "
                "raise max_attempts or leave retry_on out."
            )
        for cls in self.retry_on:
            if issubclass(cls, (Abort, *self.abort_on)):
                raise InvalidPolicy(
                    f"retry_on={names(self.retry_on)}: {cls.__name__} is never retried, for "
                    f"abort_on={names(self.abort_on)} gives up on it. Keep it in one of the two."
                )
        for cls in self.abort_on:
            if issubclass(cls, Retry | Snooze):
                raise InvalidPolicy(
                    f"abort_on={names(self.abort_on)}: a task raises {cls.__name__} to be run again. Take it out."
                )

    def budget(self, otherwise: int) -> int:
        return self.max_attempts or default_max_attempts(self.backoff, otherwise)

    def gives_up_on(self, error: BaseException) -> bool:
        """Return whether the error is not retryable, whatever budget is left."""
        if isinstance(error, Retry):
            return False
        if isinstance(error, (Abort, *self.abort_on)):
            return True
        return bool(self.retry_on) and not isinstance(error, self.retry_on)


DEFAULT_POLICY = RetryPolicy()


def names(classes: ExceptionClasses) -> str:
    return f"({', '.join(cls.__name__ for cls in classes)})"


def is_list_of_classes(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, type) for each in value)


def make_policy(
    *,
    backoff: BackoffLike | None = None,
    timeout: float | timedelta | None = None,
    objective: float | timedelta | None = None,
    **plain: Any,
) -> RetryPolicy:
    """Read the keywords of `@retry(...)`. Classes of exceptions may stand in a list, too."""
    function = backoff if callable(backoff) else None
    if function is not None:
        check_backoff_function(function)
    stored = None if backoff is None else as_backoff(backoff)
    plain = {name: tuple(value) if is_list_of_classes(value) else value for name, value in plain.items()}
    seconds = {"timeout": in_seconds(timeout), "objective": in_seconds(objective)}
    return RetryPolicy(backoff=stored, backoff_function=function, **seconds, **plain)


def retry(
    *,
    max_attempts: int | None = None,
    backoff: BackoffLike | None = None,
    timeout: float | timedelta | None = None,
    retry_on: Sequence[type[BaseException]] = (),
    abort_on: Sequence[type[BaseException]] = (),
    atomic: bool = False,
    objective: float | timedelta | None = None,
) -> Callable[[F], F]:
    """Give a function its retry policy. Stands below `@task` and leaves the function as it is.

    `max_attempts` counts every attempt, the first included. `backoff` is a list of seconds, an `Exponential`, or a
    module-level function `(exception, task_result) -> seconds | None`; None gives up. `timeout` is seconds per
    attempt. With `retry_on`, nothing else is retried; `abort_on` is never retried. An `atomic` task commits its own
    writes together with its completion. `objective` is the time within which attempts that are due should start; `tasks
    objectives` tells how many do. Options left out are the backend's defaults.
    """
    given = {"max_attempts": max_attempts, "retry_on": retry_on, "abort_on": abort_on, "atomic": atomic}
    policy = make_policy(backoff=backoff, timeout=timeout, objective=objective, **given)

    def decorate(function: F) -> F:
        attach(policy, function)
        return function

    return decorate


def attach(policy: RetryPolicy, function: Callable[..., Any]) -> None:
    """Store the policy on the function, which every backend leaves alone."""
    if hasattr(function, "enqueue"):
        raise InvalidPolicy("@retry stands above @task: write it below, next to the function.")
    if policy.atomic and iscoroutinefunction(function):
        raise InvalidPolicy(
            f"atomic=True: {function.__qualname__} is a coroutine function, for which Django has no transactions."
        )
    if getattr(function, POLICY_ATTRIBUTE, policy) != policy:
        raise InvalidPolicy(
            f"{function.__qualname__} is given two retry policies: keep one @retry, or @task's keywords."
        )
    setattr(function, POLICY_ATTRIBUTE, policy)


def policy_of(function: Callable[..., Any]) -> RetryPolicy:
    policy = getattr(function, POLICY_ATTRIBUTE, DEFAULT_POLICY)
    return policy if isinstance(policy, RetryPolicy) else DEFAULT_POLICY


def delay_before_next(
    error: BaseException | None,
    code: Code,
    *,
    policy: RetryPolicy,
    backoff: Exponential | FixedDelays | Custom,
    custom: Callable[[], float | None],
    spent: int,
    max_attempts: int,
    chance: float,
) -> float | None:
    """Seconds until the next attempt, or None to give up.

    `spent` counts the attempts that were not refunded; `custom` asks the user's own backoff function.
    """
    if spent >= max_attempts or code in PERMANENT:
        return None
    if error is not None and policy.gives_up_on(error):
        return None
    if isinstance(error, Retry) and (after := seconds_of(error, "after")) is not None:
        return after
    if isinstance(backoff, Custom):
        delay = custom()
        return None if delay is None else bounded_delay(float(delay))
    return bounded_delay(backoff.delay(spent, chance))


def seconds_of(signal: BaseException, name: str) -> float | None:
    """Return the delay of a Retry or Snooze; None if a subclass did not call the constructor that keeps it."""
    try:
        return bounded_delay(as_seconds(getattr(signal, name)))
    except (AttributeError, TypeError, ValueError):
        return None
