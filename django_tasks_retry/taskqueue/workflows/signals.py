"""Signals: something happened outside, and tasks that wait for it go on. The first of a name wins."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import connections

from ...clock import Now, now
from ...conf import options
from ...instants import adapted
from ...models import Signal
from ...rules.payload import Budget, canonical, check_size, dump
from ..database import database
from ..events import actor_of
from .memory import checked_name
from .wake import signal_key, wake_later

KEEP = timedelta(days=90)
INSERT = """\
INSERT INTO django_tasks_retry_signal (name, payload, ts, actor) VALUES (%s, {payload}, %s, %s)
ON CONFLICT (name) DO NOTHING\
"""


class Received(NamedTuple):
    """What a signal brought, and when."""

    payload: Any
    ts: datetime
    actor: str


def signal(name: str, payload: Any = None, *, by: Any = None, backend: str = "default") -> bool:
    """Tell tasks that wait for this name, now or later, in the caller's transaction. False where it was told before."""
    using, budget = database(backend), Budget(options(backend).max_args_size, f"The payload of signal {name!r}")
    stored = canonical(payload, budget.what, budget)
    text = None if stored is None else check_size(dump(stored), budget.limit, budget.what)
    connection = connections[using]
    sql = INSERT.format(payload="%s::jsonb" if connection.vendor == "postgresql" else "%s")
    with connection.cursor() as cursor:
        cursor.execute(sql, [checked_name(name), text, adapted(now(using), connection), actor_of(by)])
        is_first: bool = cursor.rowcount == 1
    # Also where it was told before: whoever told it may have died before the wake.
    wake_later([signal_key(name)], using)
    return is_first


def received(name: str, using: str) -> Received | None:
    found = Signal.objects.using(using).filter(pk=name).first()
    return None if found is None else Received(found.payload, found.ts, found.actor)


def forget_signals(*, backend: str = "default") -> int:
    """Delete signals that are older than any task should wait for."""
    past = Signal.objects.using(database(backend)).filter(ts__lt=Now() - KEEP)
    return past._raw_delete(past.db)
