"""The service layer and the only writer of tasks."""

from .claim.claim import ClaimMemory, claim, claim_task, find_poison, is_work_due, is_work_left
from .control.breaker import tick_breakers
from .control.decisions import ask_to_stop, check_queue_in_use, limit_lane, pause, resume
from .control.task_actions import cancel_one, reschedule, retry, retry_one
from .database import UNREADABLE, database
from .engines import engine_for
from .enqueue.enqueue import enqueue, enqueue_many, enqueue_stream
from .enqueue.options import EnqueueOptions
from .events import forget_skipped, write_operator_event
from .lanes import forget_idle
from .lease import Fence, Lease, current_lease
from .reading import log_once, read_row, read_rows, read_values, unreadable_columns
from .recording import PendingMaintenance, complete_task, complete_within, expire, fail_task, find_pending_maintenance
from .recording import finish, record, recorded_receipts, recover, release_task
from .renewal import excludes_writers, one_commit, renew, renew_workers
from .report import Completed, Failed, Outcome, Receipt, Released, Report, report_of
from .retention.maintain import maintain_partitions
from .retention.prune import prunable, prune, prune_pages
from .schedules.edit import change_schedule, create_schedule, delete_schedule
from .schedules.sync import listed_names, stop_vanished, sync_schedules
from .schedules.tick import Ticked, next_due_in, run_schedule_now, tick
from .statistics.stats import Stat, add_stats, forget_stats
from .timeouts import is_timeout, statement_timeout
from .workers import ALIVE_SECONDS, alive_workers, deregister_worker, find_cancelled, find_leased, heartbeat
from .workers import leases_of, register_worker, sound_workers
from .workflows.batches import enqueue_batch, enqueue_chain
from .workflows.canary import Canary, CanarySweep
from .workflows.cancel import CancelSweep, Changed, cancel
from .workflows.results import Batch
from .workflows.wake import Sweep, forget_signals, signal

__all__ = [
    "ALIVE_SECONDS", "UNREADABLE", "Batch", "Canary", "CanarySweep", "CancelSweep", "Changed", "ClaimMemory",
    "Completed", "EnqueueOptions", "Failed", "Fence", "Lease", "Outcome", "PendingMaintenance", "Receipt",
    "Released", "Report", "Stat", "Sweep", "Ticked", "add_stats", "alive_workers", "ask_to_stop", "cancel",
    "cancel_one", "change_schedule", "check_queue_in_use", "claim", "claim_task", "complete_task",
    "complete_within", "create_schedule", "current_lease", "database", "delete_schedule", "deregister_worker",
    "engine_for", "enqueue", "enqueue_batch", "enqueue_chain", "enqueue_many", "enqueue_stream",
    "excludes_writers", "expire", "fail_task", "find_cancelled", "find_leased", "find_pending_maintenance",
    "find_poison", "finish", "forget_idle", "forget_signals", "forget_skipped", "forget_stats", "heartbeat",
    "is_timeout", "is_work_due", "is_work_left", "leases_of", "limit_lane", "listed_names", "log_once",
    "maintain_partitions", "next_due_in", "one_commit", "pause", "prunable", "prune", "prune_pages", "read_row",
    "read_rows", "read_values", "record", "recorded_receipts", "recover", "register_worker", "release_task",
    "renew", "renew_workers", "report_of", "reschedule", "resume", "retry", "retry_one", "run_schedule_now",
    "signal", "sound_workers", "statement_timeout", "stop_vanished", "sync_schedules", "tick", "tick_breakers",
    "unreadable_columns", "write_operator_event",
]  # fmt: skip
