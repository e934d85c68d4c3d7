"""The service layer and the only writer of tasks: one verb, one transaction."""

from .claim import Lanes, claim
from .database import database
from .enqueue import Request, enqueue, enqueue_many
from .finish import Receipt, complete_task, fail_task, finish, release_task
from .intervene import Changed, cancel, cancel_one, pause, reschedule, resume, retry, retry_one
from .lease import Lease, current_lease
from .prune import prune
from .recover import Recovered, recover
from .renew import renew, renew_held
from .report import Completed, Failed, Outcome, Released
from .workers import alive_workers, already_reported, beat, cancelled_among, leases_of, sign_off, sign_on

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
    "alive_workers",
    "already_reported",
    "beat",
    "cancel",
    "cancel_one",
    "cancelled_among",
    "claim",
    "complete_task",
    "current_lease",
    "database",
    "enqueue",
    "enqueue_many",
    "fail_task",
    "finish",
    "leases_of",
    "pause",
    "prune",
    "recover",
    "release_task",
    "renew",
    "renew_held",
    "reschedule",
    "resume",
    "retry",
    "retry_one",
    "sign_off",
    "sign_on",
]
