"""Which errors of the database go away by themselves."""

from __future__ import annotations

TRANSIENT = frozenset({"40001", "40P01", "55P03"})
"""SQLSTATEs: serialization_failure, deadlock_detected, lock_not_available."""


def is_transient(error: BaseException) -> bool:
    """Whether the same statement, sent again at once, may well succeed."""
    return getattr(error.__cause__ or error, "sqlstate", None) in TRANSIENT
