"""A task queue for Django that lives in your database, retries by written rules and survives crashes."""

# Imports nothing of Django, so that liveness probes start in milliseconds.
from .api import chain, signal
from .errors import Abort, LeaseLost, MembersFailed, MembersGone, Retry, Snooze, TaskCancelled, TaskTimeout
from .rules.backoff import Exponential
from .rules.calls import Call, call
from .rules.lanes.limits import Limit, lane
from .rules.policy import RetryPolicy, retry
from .rules.schedules.declarations import schedule

__version__ = "0.1.0"

__all__ = [
    "Abort",
    "Call",
    "Exponential",
    "LeaseLost",
    "Limit",
    "MembersFailed",
    "MembersGone",
    "Retry",
    "RetryPolicy",
    "Snooze",
    "TaskCancelled",
    "TaskTimeout",
    "call",
    "chain",
    "lane",
    "retry",
    "schedule",
    "signal",
]
