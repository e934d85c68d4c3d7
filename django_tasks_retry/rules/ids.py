"""Ids that sort by the time they were made (UUID version 7). Time and chance are arguments."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

LATEST = 253_402_300_799_000
"""The last millisecond that a datetime can hold; ids of other kinds may claim a later one."""

VERSION_AND_VARIANT = 0x7 << 76 | 0b10 << 62
LOW = 2**62 - 1
set_int, set_is_safe = vars(uuid.UUID)["int"].__set__, vars(uuid.UUID)["is_safe"].__set__
UNKNOWN = uuid.SafeUUID.unknown


def uuid7(milliseconds: int, random_bits: int) -> uuid.UUID:
    """48 bits of time, then 74 random bits around the version and the variant."""
    time = (milliseconds & (2**48 - 1)) << 80
    return from_int(time | VERSION_AND_VARIANT | (random_bits >> 62 & 0xFFF) << 64 | random_bits & LOW)


def from_int(number: int) -> uuid.UUID:
    """`UUID(int=…)`, which takes eight times as long to find out which of its arguments it was given."""
    made = object.__new__(uuid.UUID)
    set_int(made, number)
    set_is_safe(made, UNKNOWN)
    return made


def first_of(milliseconds: int) -> uuid.UUID:
    """The smallest id made at this instant."""
    return uuid7(milliseconds, 0)


def time_of(task_id: uuid.UUID) -> datetime:
    """Return when an id was made."""
    return datetime.fromtimestamp(min(task_id.int >> 80, LATEST) / 1000, UTC)
