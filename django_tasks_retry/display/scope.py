"""The backend and database that the console shows, and the time there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from ..clock import now
from ..compat import DEFAULT_TASK_BACKEND_ALIAS
from ..conf import configured_backends, queues
from ..models import Queue
from ..taskqueue import database


@dataclass(frozen=True, slots=True)
class Scope:
    """The backend whose tasks are shown, its database, and one reading of its clock."""

    backend: str
    using: str
    now: datetime


def console_backend() -> str:
    """Return the default backend if it is ours, else the first that is."""
    ours = configured_backends()
    if DEFAULT_TASK_BACKEND_ALIAS in ours or not ours:
        return DEFAULT_TASK_BACKEND_ALIAS
    return ours[0]


def console_database() -> str:
    return database(console_backend())


def current_scope() -> Scope:
    backend = console_backend()
    using = database(backend)
    return Scope(backend, using, now(using))


def queue_names(found: Iterable[str] = ()) -> list[str]:
    """Queues of the settings, those with a row of their own (paused once), and those found otherwise; no DISTINCT."""
    stored = Queue.objects.using(console_database()).values_list("name", flat=True)[:500]
    return sorted({*queues(console_backend()), *stored, *found})
