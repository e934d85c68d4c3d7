"""Which queue the console is about, and what time it is there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings

from ..clock import now
from ..compat import DEFAULT_TASK_BACKEND_ALIAS
from ..conf import queues
from ..models import Queue
from ..taskqueue import database

PACKAGE = __name__.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Place:
    """The backend whose tasks are shown, its database, and one reading of its clock."""

    backend: str
    using: str
    now: datetime


def backend() -> str:
    """The default backend where it is ours, else the first that is."""
    backends: dict[str, Any] = getattr(settings, "TASKS", {})
    ours = [alias for alias, chosen in backends.items() if chosen.get("BACKEND", "").startswith(f"{PACKAGE}.")]
    if DEFAULT_TASK_BACKEND_ALIAS in ours or not ours:
        return DEFAULT_TASK_BACKEND_ALIAS
    return ours[0]


def using() -> str:
    return database(backend())


def here() -> Place:
    alias = backend()
    chosen = database(alias)
    return Place(alias, chosen, now(chosen))


def queue_names(found: Iterable[str] = ()) -> list[str]:
    """Queues of the settings, those that an operator decided about, and those found otherwise; never a DISTINCT."""
    decided = Queue.objects.using(using()).values_list("name", flat=True)[:500]
    return sorted({*queues(backend()), *decided, *found})
