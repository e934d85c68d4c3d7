"""Keeps the leases of the children: renews them, notices those that were revoked, enforces timeouts and fences."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from uuid import UUID

from ..conf import options as queue_options
from ..taskqueue import cancelled_among, renew_held
from .fork import ChildProcess
from .heirs import Heirs
from .timer import Every
from .weather import Trouble, Weather


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
                    lambda: renew_held(workers, self.options.lease, actor=self.actor, backend=self.backend, known=known)
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
                cancelled = self.weather.ask(lambda lost=lost: cancelled_among(lost, self.backend))  # type: ignore[misc]
                child.channel.send(lost=[str(i) for i in lost], cancelled=[str(i) for i in cancelled])

    def enforce_timeouts(self, child: ChildProcess) -> None:
        """A function that did not yield to TaskTimeout within the grace costs its process, not its neighbours."""
        overdue = monotonic() - self.options.timeout_grace
        for entry in child.running():
            if entry.deadline < overdue and entry.task_id not in child.timed_out:
                if child.leaving is None:  # lest it claims the next attempt itself
                    child.ask_to_leave("its process is replaced after a neighbour's timeout")
                if not self.weather.is_fine or not self.heirs.record_timeout(child, entry):
                    return
                child.timed_out.add(entry.task_id)
                child.ask_to_leave("its process is replaced after a neighbour's timeout")
        if child.leaving and child.timed_out:
            child.channel.send(ping=True)
            if child.is_hopeless():
                child.kill()

    def enforce_fence(self, child: ChildProcess) -> None:
        """Leases that could not be renewed run out: nothing may go on under them."""
        now = monotonic()
        if any(max(entry.claimed, self.renewed_at) + self.options.lease < now for entry in child.running()):
            child.kill()
