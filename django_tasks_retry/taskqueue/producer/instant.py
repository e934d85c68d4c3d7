"""Instants that are given with a call."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.conf import settings
from django.utils import timezone

from ...errors import InvalidCall
from ...instants import as_instant
from .new_tasks import FIRST_YEAR, LAST_YEAR


def checked_instant(name: str, value: Any) -> datetime:
    if not isinstance(value, datetime) or (settings.USE_TZ and timezone.is_naive(value)):
        wanted = "an aware" if settings.USE_TZ else "a"
        raise InvalidCall(
            f"{name}={value!r}: give {wanted} datetime (USE_TZ is {settings.USE_TZ}), such as "
            "timezone.now() + timedelta(minutes=5), or a timedelta."
        )
    if not FIRST_YEAR <= value.year <= LAST_YEAR:
        raise InvalidCall(f"{name}={value!r}: give a year from {FIRST_YEAR} to {LAST_YEAR}.")
    return as_instant(value)
