"""A call of a task as a value, for `gather`, `enqueue_many` and `chain`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Call(NamedTuple):
    """A task with its arguments, to be enqueued later."""

    func: Any
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = NOTHING
    options: Mapping[str, Any] = NOTHING
    is_immutable: bool = False

    def using(self, **options: Any) -> Call:
        """Return the same call with options of enqueue: queue, priority, max_attempts, …"""
        return self._replace(options={**self.options, **options})

    def immutable(self) -> Call:
        """Return the same call for a chain that does not pass it the result of the call before."""
        return self._replace(is_immutable=True)


def call(func: Any, /, *args: Any, **kwargs: Any) -> Call:
    """A call of this task with these arguments, for gather(), enqueue_many() and chain()."""
    return Call(func, args, kwargs)
