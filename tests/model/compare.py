"""A task in the database and in the model, side by side."""

from __future__ import annotations

SEEN = (
    "pk", "queue", "priority", "eta", "max_attempts", "unique_key", "slot", "retry_of_id", "status", "attempts",
    "refunds", "locked_by", "lock_expires_at",
)  # fmt: skip


def expected(row):
    renamed = {"pk": row.id, "retry_of_id": row.retry_of, "lock_expires_at": row.expires}
    return {name: renamed[name] if name in renamed else getattr(row, name) for name in SEEN}


def differences(stored, modelled):
    """Differences of the database and the model: task, column, stored value, modelled value."""
    columns = [(pk, name) for pk in {*stored, *modelled} for name in SEEN]
    pairs = [(pk, name, stored.get(pk, {}).get(name), modelled.get(pk, {}).get(name)) for pk, name in columns]
    return [pair for pair in pairs if pair[2] != pair[3]]
