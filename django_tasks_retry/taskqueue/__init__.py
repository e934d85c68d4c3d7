"""The service layer and the only writer of tasks: one verb, one transaction."""

from .claim import Lanes, claim
from .database import database
from .enqueue import Request, enqueue, enqueue_many
from .finish import Receipt, complete_task, fail_task, finish, release_task
from .intervene import Changed, cancel, cancel_one, pause, reschedule, resume, retry, retry_one
from .lease import Lease, current_lease
from .prune import prune
from .recover import Recovered, recover
from .renew import renew
from .report import Completed, Failed, Outcome, Released

__all__ = [
    "Changed",
    "Completed",
    "Failed",
    "Lanes",
    "Lease",
    "Outcome",
    "Receipt",
    "Recovered",
    "Released",
    "Request",
    "cancel",
    "cancel_one",
    "claim",
    "complete_task",
    "current_lease",
    "database",
    "enqueue",
    "enqueue_many",
    "fail_task",
    "finish",
    "pause",
    "prune",
    "recover",
    "release_task",
    "renew",
    "reschedule",
    "resume",
    "retry",
    "retry_one",
]
