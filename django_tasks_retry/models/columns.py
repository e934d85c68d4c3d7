"""A task's columns by what they are for.

Statements that write and copy tasks, and the guard, build their lists from these. Queries that need a few columns name
them. A test names the column of the model that stands in no list.
"""

CALL_COLUMNS = (
    "func_path", "args", "kwargs", "backend", "max_attempts", "backoff", "timeout", "interval", "slot", "run_id",
    "unique_key", "metadata", "lane",
)  # fmt: skip
"""The call. Retries and repetitions take it over."""

ORIGIN_COLUMNS = ("id", "retry_of_id", "parent_id", "schedule_id", "batch", "created_at")
"""The task's identity and origin."""

PLACE_COLUMNS = ("queue", "priority", "eta")
"""The task's place in the queue."""

STATE_COLUMNS = (
    "refunds", "status", "attempts", "started_at", "last_attempt_at", "locked_by", "lock_expires_at", "moved_by",
    "updated_at", "finished_at", "last_error", "fingerprint", "progress", "crashes", "waits_for",
)  # fmt: skip
"""The task's progress through its life."""

OWN_COLUMNS = ("expires_at", "deadline_at", "unique_until", "follows_id", "on_failure")
"""Options of few tasks. Retries and repetitions do not take them over.

Statements that write tasks without any of them do not name these columns.
"""

FIXED_COLUMNS = (*ORIGIN_COLUMNS, *CALL_COLUMNS, *OWN_COLUMNS)
"""Columns that no statement may change once the task is written."""
