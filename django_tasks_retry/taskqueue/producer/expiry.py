"""Expiry: until when a task may begin. What was not started by then is cancelled."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone

from ...errors import InvalidCall
from ...instants import as_instant
from ...models import Task
from ...rules.backoff import MAX_DELAY
from .new_tasks import FIRST_YEAR, LAST_YEAR


def set_expiry(task: Task, expires: Any) -> None:
    """Let the task expire then, or so long after it is written; InvalidCall where it could never start."""
    if task.interval:
        raise InvalidCall(
            "expires= and interval=: an occurrence that expires would end the series. "
            "Use a schedule, whose `late` gives up a slot that is past."
        )
    if isinstance(expires, timedelta):
        task.expires_in = checked_span(expires)
    else:
        task.expires_at = checked_instant("expires", expires)
    if is_over_before_due(task):
        raise InvalidCall(f"expires={expires!r}: it would expire before it is due. Give a later time than its eta.")


def checked_span(expires: timedelta) -> float:
    if not timedelta(0) < expires <= timedelta(seconds=MAX_DELAY):
        raise InvalidCall(f"expires={expires!r}: give a timedelta of more than zero and at most ten years.")
    return expires.total_seconds()


def is_over_before_due(task: Task) -> bool:
    """As far as both are told in the same way: what lies between an instant and a delay, only the database knows."""
    eta: datetime | None = task.eta
    if task.expires_at is not None and eta is not None:
        return bool(task.expires_at <= eta)
    return bool(task.expires_in and eta is None and task.expires_in <= task.due_in)


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
