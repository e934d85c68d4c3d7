"""The service layer and the only writer of tasks: one verb, one transaction."""

from .consumer.claim import claim, claim_task, is_work_due
from .consumer.duties import Duties, find_duties
from .consumer.expire import expire
from .consumer.finish import complete_task, complete_within, fail_task, finish, record, release_task
from .consumer.lanes import Lanes
from .consumer.receipts import Receipt, recorded_receipts
from .consumer.recover import recover
from .consumer.renew import renew, renew_workers
from .consumer.report import Completed, Failed, Outcome, Released, Report, report_of
from .consumer.suspects import find_suspects
from .consumer.workers import (
    Peer,
    alive_workers,
    deregister_worker,
    find_cancelled,
    find_leased,
    heartbeat,
    leases_of,
    register_worker,
)
from .database import database
from .lanes.breaker import tick_breakers
from .lanes.control import limit_lane, pause_lane, resume_lane
from .lanes.states import forget_idle
from .lease import Fence, Lease, current_lease
from .operator.control import ask_to_stop, check_queue_in_use, pause, resume
from .operator.intervene import Changed, cancel, cancel_one, reschedule, retry, retry_one
from .operator.prune import prunable, prune, prune_pages
from .operator.stats import LaneOutcomes, Stat, add_stats, forget_stats
from .partitions.upkeep import keep_up
from .producer.enqueue import Request, enqueue, enqueue_many, enqueue_stream
from .schedules.code import listed_names, stop_vanished, sync_schedules
from .schedules.control import pause_schedule, resume_schedule, run_schedule_now
from .schedules.history import forget_skipped
from .schedules.plan import change_schedule, create_schedule, delete_schedule
from .schedules.tick import Ticked, next_due_in, tick
from .workflows.callbacks import enqueue_batch
from .workflows.chains import enqueue_chain
from .workflows.signals import forget_signals, signal
from .workflows.sweep import Sweep

__all__ = [
    "Changed",
    "Completed",
    "Duties",
    "Failed",
    "Fence",
    "LaneOutcomes",
    "Lanes",
    "Lease",
    "Outcome",
    "Peer",
    "Receipt",
    "Released",
    "Report",
    "Request",
    "Stat",
    "Sweep",
    "Ticked",
    "add_stats",
    "alive_workers",
    "ask_to_stop",
    "cancel",
    "cancel_one",
    "change_schedule",
    "check_queue_in_use",
    "claim",
    "claim_task",
    "complete_task",
    "complete_within",
    "create_schedule",
    "current_lease",
    "database",
    "delete_schedule",
    "deregister_worker",
    "enqueue",
    "enqueue_batch",
    "enqueue_chain",
    "enqueue_many",
    "enqueue_stream",
    "expire",
    "fail_task",
    "find_cancelled",
    "find_duties",
    "find_leased",
    "find_suspects",
    "finish",
    "forget_idle",
    "forget_signals",
    "forget_skipped",
    "forget_stats",
    "heartbeat",
    "is_work_due",
    "keep_up",
    "leases_of",
    "limit_lane",
    "listed_names",
    "next_due_in",
    "pause",
    "pause_lane",
    "pause_schedule",
    "prunable",
    "prune",
    "prune_pages",
    "record",
    "recorded_receipts",
    "recover",
    "register_worker",
    "release_task",
    "renew",
    "renew_workers",
    "report_of",
    "reschedule",
    "resume",
    "resume_lane",
    "resume_schedule",
    "retry",
    "retry_one",
    "run_schedule_now",
    "signal",
    "stop_vanished",
    "sync_schedules",
    "tick",
    "tick_breakers",
]
