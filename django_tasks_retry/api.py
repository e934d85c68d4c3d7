"""Functions that users import from the package. They import Django and the service layer only when they are called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, ParamSpec, TypedDict, TypeVar, overload

from .rules.calls import Call, CallOptions, Link, TaskOptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Unpack

    from django.tasks import Task as DjangoTask

    from .bridge import Context
    from .models import Task

P = ParamSpec("P")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
R = TypeVar("R")

if TYPE_CHECKING:

    class DeclaredOptions(TypedDict, total=False):
        """Options of `@task`, for type checkers."""

        priority: int
        queue_name: str
        backend: str

    class RetryTask(DjangoTask[P, R]):
        """A task with the options of this queue."""

        def using(self, **options: Unpack[TaskOptions]) -> RetryTask[P, R]: ...


@overload
def task(
    function: Callable[Concatenate[Context, P], R], *, takes_context: Literal[True], **options: Unpack[DeclaredOptions]
) -> RetryTask[P, R]: ...


@overload
def task(
    *, takes_context: Literal[True], **options: Unpack[DeclaredOptions]
) -> Callable[[Callable[Concatenate[Context, P], R]], RetryTask[P, R]]: ...


@overload
def task(function: Callable[P, R]) -> RetryTask[P, R]: ...


@overload
def task(
    *, takes_context: Literal[False] = False, **options: Unpack[DeclaredOptions]
) -> Callable[[Callable[P, R]], RetryTask[P, R]]: ...


def task(function: Any = None, **options: Any) -> Any:
    """Decorate as `django.tasks.task` does; type checkers know `Context` and the options of `using()`."""
    from .compat import task

    return task(**options) if function is None else task(function, **options)


def signal(name: str, payload: Any = None, *, by: Any = None, backend: str = "default") -> bool:
    """Wake tasks that wait for this name, now or later, in your transaction. False if it was sent before."""
    from .taskqueue import signal

    return signal(name, payload, by=by, backend=backend)


async def asignal(name: str, payload: Any = None, *, by: Any = None, backend: str = "default") -> bool:
    """See signal()."""
    from asgiref.sync import sync_to_async

    return await sync_to_async(signal)(name, payload, by=by, backend=backend)


class Chain(Generic[R]):
    """Calls of which each is given the result of the one before as its first argument."""

    def __init__(self, *calls: Any) -> None:
        self.calls = calls

    def enqueue(self, **options: Unpack[CallOptions]) -> Task:
        """Enqueue it as one task, whose result is that of the last call. `options` are those of enqueue."""
        from .taskqueue import enqueue_chain

        return enqueue_chain(self.calls, options)

    async def aenqueue(self, **options: Unpack[CallOptions]) -> Task:
        """See enqueue()."""
        from asgiref.sync import sync_to_async

        return await sync_to_async(self.enqueue)(**options)


@overload
def chain(first: Call[A], /) -> Chain[A]: ...


@overload
def chain(first: Call[A], second: Link[A, B] | Call[B], /) -> Chain[B]: ...


@overload
def chain(first: Call[A], second: Link[A, B] | Call[B], third: Link[B, C] | Call[C], /) -> Chain[C]: ...


@overload
def chain(
    first: Call[A], second: Link[A, B] | Call[B], third: Link[B, C] | Call[C], fourth: Link[C, D] | Call[D], /
) -> Chain[D]: ...


@overload
def chain(
    first: Call[A],
    second: Link[A, B] | Call[B],
    third: Link[B, C] | Call[C],
    fourth: Link[C, D] | Call[D],
    fifth: Link[D, Any] | Call[Any],
    /,
    *rest: Link[Any, Any] | Call[Any],
) -> Chain[Any]: ...


def chain(*calls: Any) -> Chain[Any]:
    """Calls that run one after the other, each with the result of the one before as its first argument."""
    return Chain(*calls)
