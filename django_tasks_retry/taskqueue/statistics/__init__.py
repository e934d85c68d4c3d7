"""Statistics: how attempts ended, how queues stand, which failures are alike; at a cost that is bounded."""

from .failure_groups import COUNTED, MAX_GROUPS, GroupFigures, GroupHead, GroupOutcomes, GroupText
from .failure_groups import describe_groups, estimate_groups, failed_since, group_head, group_heads
from .failure_groups import group_outcomes, group_texts
from .objectives import Budget, Objective, late_hours, late_tasks, objectives, read_budgets
from .snapshot import Holder, Snapshot, from_replica, late_schedules, read_queues, replica_lag, take_snapshot
from .stats import BOUNDS, COUNTS, OUTCOMES, RAN, RECENT, WAITED, Counts, Stat, counts_since, failing_functions
from .stats import Backlog, add_backlog, backlogs_since, sums_since
from .summaries import CAP, LOOK_BACK, Depth, QueueFigures, ahead_of, count_or_estimate, count_stored, depths
from .summaries import expired_leases, id_after
from .summaries import newest_before, newest_events, paused_queues, queue_figures, serving, unknown_functions
