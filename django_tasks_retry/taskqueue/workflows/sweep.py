"""Sweep: wakes tasks whose waker died between its commit and the wake. Any worker makes it, a page at a time."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from uuid import UUID

from ..database import database
from ..engines import engine_for
from ..engines.base import Waiting
from .wake import make_due

PAGE = 1000
FIRST = Waiting(UUID(int=0), "", is_ready=False)


@dataclass(slots=True)
class Sweep:
    """Goes round and round, from a place of its own, so that many workers share the round."""

    backend: str = "default"
    after: tuple[str, UUID] = field(default_factory=lambda: (f"batch:{secrets.token_hex(4)}", FIRST.id))

    def __call__(self) -> list[UUID]:
        """One page; what it found ready is due."""
        using = database(self.backend)
        page = engine_for(using).waiting_tasks(self.after, PAGE)
        last = page[-1] if len(page) == PAGE else FIRST
        self.after = last.waits_for, last.id
        ready = [each for each in page if each.is_ready]
        return make_due([each.id for each in ready], {each.waits_for for each in ready}, using) if ready else []

    def everything(self) -> list[UUID]:
        """From the beginning to the end."""
        self.after = FIRST.waits_for, FIRST.id
        woken = self()
        while self.after[0]:
            woken += self()
        return woken
