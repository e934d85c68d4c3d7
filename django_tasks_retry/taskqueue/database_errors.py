"""What an error of the database means."""

from __future__ import annotations

TRANSIENT = frozenset({"40001", "40P01", "55P03"})
"""SQLSTATEs: serialization_failure, deadlock_detected, lock_not_available."""


def is_transient(error: BaseException) -> bool:
    """Whether the same statement, sent again at once, may well succeed."""
    return getattr(error.__cause__ or error, "sqlstate", None) in TRANSIENT


UNDEFINED_TABLE = "42P01"


def is_missing_table(error: BaseException) -> bool:
    """Whether a statement named a table that the database does not have."""
    cause = error.__cause__ or error
    return getattr(cause, "sqlstate", None) == UNDEFINED_TABLE or str(cause).startswith("no such table")
