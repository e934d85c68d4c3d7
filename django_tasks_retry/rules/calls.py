"""A call of a task as a value: what `gather`, `enqueue_many` and `chain` are given; and handles for users.

The handles forward to the service layer, and import nothing of Django until they are used.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ..models import Task

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Call(NamedTuple):
    """A task with its arguments, to be enqueued later."""

    func: Any
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = NOTHING
    options: Mapping[str, Any] = NOTHING

    def using(self, **options: Any) -> Call:
        """The same call with options of enqueue: queue, priority, max_attempts, …"""
        return Call(self.func, self.args, self.kwargs, {**self.options, **options})


def call(func: Any, /, *args: Any, **kwargs: Any) -> Call:
    """A call of this task with these arguments, for gather(), enqueue_many() and chain()."""
    return Call(func, args, kwargs)


def signal(name: str, payload: Any = None, *, by: Any = None, backend: str = "default") -> bool:
    """Let tasks go on that wait for this name, now or later; in your transaction. False where it was told before."""
    from ..taskqueue import signal

    return signal(name, payload, by=by, backend=backend)


class Chain:
    """Calls of which each is given the result of the one before as its first argument."""

    def __init__(self, *calls: Call) -> None:
        self.calls = calls

    def enqueue(self, **options: Any) -> Task:
        """Enqueue it as one task, whose result is that of the last call. `options` are those of enqueue."""
        from ..taskqueue import enqueue_chain

        return enqueue_chain(self.calls, options)


def chain(*calls: Call) -> Chain:
    """Calls that run one after the other, each with the result of the one before as its first argument."""
    return Chain(*calls)
