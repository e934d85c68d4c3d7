"""A task queue for Django that lives in your database, retries by written rules and survives crashes."""

# Imports nothing of Django, so that liveness probes start in milliseconds.
from typing import TYPE_CHECKING, Any

from .api import asignal, chain, signal, task
from .errors import Abort, LeaseLost, MembersFailed, MembersGone, Retry, Snooze, TaskCancelled, TaskTimeout
from .rules.backoff import Exponential
from .rules.calls import Call, call
from .rules.lanes.limits import Limit, lane
from .rules.policy import RetryPolicy, retry
from .rules.schedules.declarations import schedule

if TYPE_CHECKING:
    from .bridge import Context

__version__ = "0.1.0"

__all__ = [
    "Abort", "Call", "Context", "Exponential", "LeaseLost", "Limit", "MembersFailed", "MembersGone", "Retry",
    "RetryPolicy", "Snooze", "TaskCancelled", "TaskTimeout", "asignal", "call", "chain", "lane", "retry",
    "schedule", "signal", "task",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import `Context`, an annotation for tasks that take it, when it is asked for: it needs Django."""
    if name == "Context":
        from .bridge import Context

        return Context
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
