"""Functions that users import from the package. They import Django and the service layer only when they are called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .rules.calls import Call

if TYPE_CHECKING:
    from .models import Task


def signal(name: str, payload: Any = None, *, by: Any = None, backend: str = "default") -> bool:
    """Wake tasks that wait for this name, now or later, in your transaction. False if it was sent before."""
    from .taskqueue import signal

    return signal(name, payload, by=by, backend=backend)


class Chain:
    """Calls of which each is given the result of the one before as its first argument."""

    def __init__(self, *calls: Call) -> None:
        self.calls = calls

    def enqueue(self, **options: Any) -> Task:
        """Enqueue it as one task, whose result is that of the last call. `options` are those of enqueue."""
        from .taskqueue import enqueue_chain

        return enqueue_chain(self.calls, options)


def chain(*calls: Call) -> Chain:
    """Calls that run one after the other, each with the result of the one before as its first argument."""
    return Chain(*calls)
