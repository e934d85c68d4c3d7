"""A call of a task as a value, for `gather`, `enqueue_many` and `chain`; and the types of calls and their options."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    NamedTuple,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeVar,
    overload,
)

from .backoff import BackoffLike

if TYPE_CHECKING:
    from typing import Unpack

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)
NOTHING: Mapping[str, Any] = MappingProxyType({})


class TaskOf(Protocol[P, R_co]):
    """A task of `django.tasks` or its backport, for type checkers: its parameters and its result."""

    def call(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


class TaskOptions(TypedDict, total=False):
    """Options of `using()`, for type checkers."""

    eta: datetime | timedelta | None
    run_after: datetime | timedelta | None
    queue: str | None
    queue_name: str | None
    priority: int | None
    backend: str | None
    expires: datetime | timedelta | None
    deadline: datetime | timedelta | None
    unique_key: str | None
    unique_for: float | timedelta | None
    on_conflict: str | None
    debounce: float | timedelta | None
    debounce_max: float | timedelta | None
    on_failure: Call[Any] | Link[str, Any] | TaskOf[[str], Any] | None
    shard_key: str | None


class CallOptions(TaskOptions, total=False):
    """Options of an enqueue, for type checkers."""

    max_attempts: int | None
    backoff: BackoffLike | None
    timeout: float | timedelta | None
    interval: float | timedelta
    metadata: Mapping[str, Any]
    lane: str | None


class Call(NamedTuple, Generic[R_co]):
    """A task with its arguments, to be enqueued later."""

    func: Any
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = NOTHING
    options: Mapping[str, Any] = NOTHING
    is_immutable: bool = False

    def using(self, **options: Unpack[CallOptions]) -> Call[R_co]:
        """Return the same call with options of enqueue: queue, priority, max_attempts, …"""
        return self._replace(options={**self.options, **options})

    def immutable(self) -> Call[R_co]:
        """Return the same call for a chain that does not pass it the result of the call before."""
        return self._replace(is_immutable=True)


class Link(Protocol[T_contra, R_co]):
    """A call in a chain that lacks its first argument, the result of the call before. For type checkers."""

    def using(self, **options: Unpack[CallOptions]) -> Link[T_contra, R_co]: ...

    def follows(self, result: T_contra, /) -> Call[R_co]: ...


@overload
def call(func: TaskOf[P, R_co], /, *args: P.args, **kwargs: P.kwargs) -> Call[R_co]: ...


@overload
def call(
    func: TaskOf[Concatenate[T_contra, P], R_co], /, *args: P.args, **kwargs: P.kwargs
) -> Link[T_contra, R_co]: ...


def call(func: Any, /, *args: Any, **kwargs: Any) -> Any:
    """A call of this task with these arguments, for gather(), enqueue_many() and chain()."""
    return Call(func, args, kwargs)
