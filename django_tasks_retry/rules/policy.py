"""What a task says about its own retries, and the verdict on a failed attempt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from ..errors import Abort, InvalidPolicy, Retry, as_seconds
from .backoff import MAX_DELAY, Backoff, BackoffFunction, BackoffLike, as_backoff, default_max_attempts

F = TypeVar("F", bound=Callable[..., Any])
ExceptionClasses = tuple[type[BaseException], ...]

POLICY_ATTRIBUTE = "retry_policy"


def read_timeout(timeout: float | timedelta) -> float:
    try:
        return as_seconds(timeout)
    except (TypeError, ValueError):
        raise InvalidPolicy(f"timeout={timeout!r}: give seconds, more than zero, or a timedelta.") from None


def check_max_attempts(value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 10_000:
        raise InvalidPolicy(f"max_attempts={value!r}: give a whole number from 1 (no retries) to 10,000.")


def check_timeout(value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_DELAY:
        raise InvalidPolicy(f"timeout={value!r}: give seconds, more than zero and at most ten years.")


def check_exception_classes(field: str, value: object) -> None:
    if not isinstance(value, tuple) or not all(isinstance(c, type) and issubclass(c, BaseException) for c in value):
        raise InvalidPolicy(f"{field}={value!r}: give a tuple of exception classes, such as ({field}=(ValueError,)).")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """None means: the backend's default."""

    max_attempts: int | None = None
    backoff: Backoff | None = None
    backoff_function: BackoffFunction | None = None
    timeout: float | None = None
    retry_on: ExceptionClasses = ()
    abort_on: ExceptionClasses = ()
    atomic: bool = False

    def __post_init__(self) -> None:
        if self.max_attempts is not None:
            check_max_attempts(self.max_attempts)
        if self.timeout is not None:
            check_timeout(self.timeout)
        for field in ("retry_on", "abort_on"):
            check_exception_classes(field, getattr(self, field))
        both = set(self.retry_on) & set(self.abort_on)
        if both:
            names = ", ".join(sorted(cls.__name__ for cls in both))
            raise InvalidPolicy(f"{names} stands in retry_on and in abort_on: keep it in one of the two.")

    def budget(self, otherwise: int) -> int:
        return self.max_attempts or default_max_attempts(self.backoff, otherwise)

    def gives_up_on(self, error: BaseException) -> bool:
        """True where the error is not retryable, whatever budget is left."""
        if isinstance(error, Retry):
            return False
        if isinstance(error, (Abort, *self.abort_on)):
            return True
        return bool(self.retry_on) and not isinstance(error, self.retry_on)


DEFAULT_POLICY = RetryPolicy()


def make_policy(
    *,
    max_attempts: int | None = None,
    backoff: BackoffLike | None = None,
    timeout: float | timedelta | None = None,
    retry_on: ExceptionClasses = (),
    abort_on: ExceptionClasses = (),
    atomic: bool = False,
) -> RetryPolicy:
    """Read the keywords of `@retry(...)`."""
    return RetryPolicy(
        max_attempts=max_attempts,
        backoff=None if backoff is None else as_backoff(backoff),
        backoff_function=backoff if callable(backoff) else None,
        timeout=None if timeout is None else read_timeout(timeout),
        retry_on=retry_on,
        abort_on=abort_on,
        atomic=atomic,
    )


def retry(
    *,
    max_attempts: int | None = None,
    backoff: BackoffLike | None = None,
    timeout: float | timedelta | None = None,
    retry_on: ExceptionClasses = (),
    abort_on: ExceptionClasses = (),
    atomic: bool = False,
) -> Callable[[F], F]:
    """Give a function its retry policy. Stands below `@task` and leaves the function as it is."""
    policy = make_policy(
        max_attempts=max_attempts,
        backoff=backoff,
        timeout=timeout,
        retry_on=retry_on,
        abort_on=abort_on,
        atomic=atomic,
    )

    def decorate(function: F) -> F:
        setattr(function, POLICY_ATTRIBUTE, policy)
        return function

    return decorate


def policy_of(function: Callable[..., Any]) -> RetryPolicy:
    policy = getattr(function, POLICY_ATTRIBUTE, DEFAULT_POLICY)
    return policy if isinstance(policy, RetryPolicy) else DEFAULT_POLICY
