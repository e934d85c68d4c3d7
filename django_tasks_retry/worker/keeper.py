"""Keeps the leases of the children: renews them, notices those that were revoked, enforces timeouts and fences."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from uuid import UUID

from ..conf import options as queue_options
from ..taskqueue import find_cancelled, renew_workers
from .fork import ChildProcess
from .heirs import Heirs
from .timer import Every
from .weather import Trouble, Weather

REPLACED = "its process is replaced after a neighbour's timeout"


class Keeper:
    def __init__(self, supervisor_id: str, backend: str, weather: Weather, heirs: Heirs) -> None:
        self.actor, self.backend, self.weather, self.heirs = supervisor_id, backend, weather, heirs
        self.options = queue_options(backend)
        self.renewing = Every(min(10.0, self.options.lease / 4))
        self.renewed_at = monotonic()

    def turn(self, children: Sequence[ChildProcess]) -> None:
        if self.renewing.is_due():
            self.renew(children)
        for child in children:
            self.enforce_timeouts(child)
            self.enforce_fence(child)

    def renew(self, children: Sequence[ChildProcess]) -> None:
        """Renew what the children hold, and tell them what they no longer do."""
        before = {child: {entry.task_id for entry in child.running()} for child in children}
        known = {entry.task_id for child in children for entry in child.board.entries()}
        asked = monotonic()
        if known:
            workers = [child.id for child in children]
            try:
                held = self.weather.ask(
                    lambda: renew_workers(
                        workers, self.options.lease, actor=self.actor, backend=self.backend, known=known
                    )
                )
                self.tell_lost(before, held)
            except Trouble:
                self.renewing.hurry()
                return
        self.renewed_at = asked
        for child in children:
            child.board.renewed(asked)
            child.channel.send(renewed=True)

    def tell_lost(self, before: dict[ChildProcess, set[UUID]], held: set[UUID]) -> None:
        for child, running in before.items():
            # What has ended meanwhile is not lost; the child drops such a word by itself.
            lost = (running - held) & {entry.task_id for entry in child.running()}
            if lost:
                cancelled = self.weather.ask(lambda lost=lost: find_cancelled(lost, self.backend))  # type: ignore[misc]
                child.channel.send(lost=[str(i) for i in lost], cancelled=[str(i) for i in cancelled])

    def enforce_timeouts(self, child: ChildProcess) -> None:
        """A function that did not yield to TaskTimeout within the grace costs its process, not its neighbours."""
        child.note_overdue(monotonic() - self.options.timeout_grace)
        if child.overdue and child.leaving != REPLACED:
            child.ask_to_leave(REPLACED)  # lest it claims the next attempt itself
        if child.overdue and self.weather.is_fine:
            with suppress(Trouble):
                self.heirs.record_timeouts(child)
                child.ask_to_leave(REPLACED)
        if child.overdue or child.timed_out:
            child.channel.send(ping=True)
            if child.is_hopeless():
                child.kill()

    def enforce_fence(self, child: ChildProcess) -> None:
        """Leases that could not be renewed run out: nothing may go on under them."""
        now = monotonic()
        if any(max(entry.claimed, self.renewed_at) + self.options.lease < now for entry in child.running()):
            child.kill()
