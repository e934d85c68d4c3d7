"""The service layer and the only writer of tasks: one verb, one transaction."""

from .claim import Lanes, claim
from .control import ask_to_stop, pause, resume
from .database import database
from .enqueue import Request, enqueue, enqueue_many
from .finish import Receipt, complete_task, complete_within, fail_task, finish, record, release_task
from .intervene import Changed, cancel, cancel_one, reschedule, retry, retry_one
from .lease import Fence, Lease, current_lease
from .prune import prune
from .recover import Recovered, recover
from .renew import renew, renew_held
from .report import Completed, Failed, Outcome, Released, Report, report_of
from .stats import Stat, add_stats, forget_stats
from .workers import alive_workers, already_reported, beat, cancelled_among, leases_of, sign_off, sign_on, still_held

__all__ = [
    "Changed",
    "Completed",
    "Failed",
    "Fence",
    "Lanes",
    "Lease",
    "Outcome",
    "Receipt",
    "Recovered",
    "Released",
    "Report",
    "Request",
    "Stat",
    "add_stats",
    "alive_workers",
    "already_reported",
    "ask_to_stop",
    "beat",
    "cancel",
    "cancel_one",
    "cancelled_among",
    "claim",
    "complete_task",
    "complete_within",
    "current_lease",
    "database",
    "enqueue",
    "enqueue_many",
    "fail_task",
    "finish",
    "forget_stats",
    "leases_of",
    "pause",
    "prune",
    "record",
    "recover",
    "release_task",
    "renew",
    "renew_held",
    "report_of",
    "reschedule",
    "resume",
    "retry",
    "retry_one",
    "sign_off",
    "sign_on",
    "still_held",
]
