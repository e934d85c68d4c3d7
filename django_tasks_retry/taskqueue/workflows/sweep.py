"""Sweep: wakes tasks whose waker died between its commit and the wake. Any worker makes it, a page at a time."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from uuid import UUID

from ...clock import Now
from ...models import Signal, Task
from ..database import database
from ..engines import engine_for
from ..engines.base import Waiting
from .wake import keys_of, make_due, signal_key

PAGE = 1000
FIRST = Waiting(UUID(int=0), "", is_ready=False)
LATELY = timedelta(seconds=60)
"""What is looked for the first time. Later on it is what happened since the last time, and a little more: an end is
dated before its commit."""
MARGIN = timedelta(seconds=2)


@dataclass(slots=True)
class Sweep:
    """Looks at what has happened since it last looked, so that it finds soon whom to wake, however many wait.

    And goes round and round through all that wait, from a place of its own, so that many workers share the round: for
    what happened in a transaction that took long to commit, or while no worker was there.
    """

    backend: str = "default"
    after: tuple[str, UUID] = field(default_factory=lambda: (f"batch:{secrets.token_hex(4)}", FIRST.id))
    looked: float | None = None
    is_behind: bool = False
    """Whether it found so many that there may be more."""

    def __call__(self) -> list[UUID]:
        """What it found ready is due."""
        found = [self.lately(), self.page()]
        self.is_behind = max(map(len, found)) >= PAGE // 2
        return [task_id for woken in found for task_id in woken]

    def lately(self) -> list[UUID]:
        """Those who wait for what has ended or come."""
        using, began = database(self.backend), monotonic()
        window = LATELY if self.looked is None else min(LATELY, timedelta(seconds=began - self.looked) + MARGIN)
        keys = happened(window, using)
        woken = wake_ready(engine_for(using).waiting_for(keys, PAGE), using) if keys else []
        self.looked = began
        return woken

    def page(self) -> list[UUID]:
        """The next page of all that wait."""
        using = database(self.backend)
        page = engine_for(using).waiting_tasks(self.after, PAGE)
        last = page[-1] if len(page) == PAGE else FIRST
        self.after = last.waits_for, last.id
        return wake_ready(page, using)

    def everything(self) -> list[UUID]:
        """From the beginning to the end."""
        self.after = FIRST.waits_for, FIRST.id
        woken = self.page()
        while self.after[0]:
            woken += self.page()
        return woken


def happened(window: timedelta, using: str) -> list[str]:
    """What could be waited for and has come within this time: batches of which members ended, signals."""
    ended = Task.objects.using(using).filter(batch__isnull=False, finished_at__gt=Now() - window)
    came = Signal.objects.using(using).filter(ts__gt=Now() - window)
    batches = set(ended.values_list("batch", flat=True).distinct())
    return [*keys_of(batches), *map(signal_key, came.values_list("pk", flat=True))]


def wake_ready(waiting: Sequence[Waiting], using: str) -> list[UUID]:
    ready = [each for each in waiting if each.is_ready]
    return make_due([each.id for each in ready], {each.waits_for for each in ready}, using) if ready else []
