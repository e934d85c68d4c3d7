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
