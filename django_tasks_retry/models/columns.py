"""A task's columns by what they are for: every other list of them is made from these.

A test names the column of the model that stands in none of them.
"""

from __future__ import annotations

CALL_COLUMNS = (
    "func_path", "args", "kwargs", "backend", "max_attempts", "backoff", "timeout", "interval", "slot", "run_id",
    "unique_key", "metadata", "lane",
)  # fmt: skip
"""What was asked for. Retries and repetitions take it over."""

ORIGIN_COLUMNS = ("id", "retry_of_id", "parent_id", "schedule_id", "batch", "created_at")
"""Which task it is, and where it comes from."""

PLACE_COLUMNS = ("queue", "priority", "eta")
"""Where it stands in line."""

STATE_COLUMNS = (
    "refunds", "status", "attempts", "started_at", "last_attempt_at", "locked_by", "lock_expires_at", "moved_by",
    "updated_at", "finished_at", "last_error", "fingerprint", "progress", "crashes", "waits_for",
)  # fmt: skip
"""How far it has come."""

OWN_COLUMNS = ("expires_at", "follows_id")
"""What few tasks are asked with, and each for itself: retries and repetitions do not take it over.

Statements that write tasks without any of it do not name these columns.
"""

FIXED_COLUMNS = (*ORIGIN_COLUMNS, *CALL_COLUMNS, *OWN_COLUMNS)
"""What no statement may change once the task is written."""
