"""Ids that sort by the time they were made (UUID version 7). Time and chance are arguments."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

LATEST = 253_402_300_799_000
"""The last millisecond that a datetime can hold; ids of other kinds may claim a later one."""


def uuid7(milliseconds: int, random_bits: int) -> uuid.UUID:
    """48 bits of time, then 74 random bits around the version and the variant."""
    high = (milliseconds & (2**48 - 1)) << 80
    middle = 0x7 << 76 | (random_bits >> 62 & 0xFFF) << 64
    low = 0b10 << 62 | (random_bits & (2**62 - 1))
    return uuid.UUID(int=high | middle | low)


def first_of(milliseconds: int) -> uuid.UUID:
    """The smallest id made at this instant."""
    return uuid7(milliseconds, 0)


def time_of(task_id: uuid.UUID) -> datetime:
    """When an id was made."""
    return datetime.fromtimestamp(min(task_id.int >> 80, LATEST) / 1000, UTC)
