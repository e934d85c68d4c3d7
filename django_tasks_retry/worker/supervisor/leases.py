"""Lease renewal: moves the expiry of leases that are looked after, and tells children what they no longer hold."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from uuid import UUID

from ...conf import options as queue_options
from ...taskqueue import find_cancelled, find_leased, renew_workers
from ..shared.database import DatabaseCaller, Unavailable
from ..shared.inflight import Entry, State
from ..shared.messages import LeasesLost, LeasesRenewed
from ..shared.timer import Every
from .child_process import ChildProcess

START_SECONDS = 10.0
"""A claimed attempt must have begun by then; the child gives it back after one second, we after ten."""
RECORD_SECONDS = 120.0
"""The outcome of an attempt that is over must be recorded by then."""


class LeaseRenewal:
    def __init__(self, supervisor_id: str, backend: str, database: DatabaseCaller) -> None:
        self.actor, self.backend, self.database = supervisor_id, backend, database
        self.options = queue_options(backend)
        self.renewing = Every(min(10.0, self.options.lease / 4))
        self.asked_at = monotonic()

    def tick(self, children: Sequence[ChildProcess]) -> None:
        if self.renewing.is_due():
            self.renew(children)

    def renew(self, children: Sequence[ChildProcess]) -> None:
        """Renew what the children look after, and tell them what they no longer hold."""
        asked = monotonic()
        earning = {child: self.earning_entries(child, asked) for child in children}
        known = {entry.task_id for entries in earning.values() for entry in entries}
        renewed: set[UUID] = set()
        if known:
            try:
                renewed = self.renew_known(known, [child.id for child in children])
                self.send_lost(earning, renewed)
            except Unavailable:
                self.renewing.hurry()
                return
        self.asked_at = asked
        for child, entries in earning.items():
            child.inflight.note_renewals(asked, [entry for entry in entries if entry.task_id in renewed])
            child.send(LeasesRenewed())

    def earning_entries(self, child: ChildProcess, now: float) -> list[Entry]:
        return [entry for entry in child.entries() if self.earns_renewal(entry, now)]

    def renew_known(self, known: set[UUID], workers: list[str]) -> set[UUID]:
        seconds = self.options.lease
        return self.database.call(
            lambda: renew_workers(workers, seconds, actor=self.actor, backend=self.backend, known=known)
        )

    def earns_renewal(self, entry: Entry, now: float) -> bool:
        """By progress, within stated bounds; being in the table is not enough."""
        match entry.state:
            case State.CLAIMED:
                return not entry.revoked and now - entry.claimed <= START_SECONDS
            case State.STARTED:
                return now <= entry.deadline + self.options.timeout_grace + RECORD_SECONDS
            case State.ENDED:
                return now - entry.ended <= RECORD_SECONDS
            case _:
                return False

    def send_lost(self, earning: dict[ChildProcess, list[Entry]], renewed: set[UUID]) -> None:
        missing = {entry.task_id for entries in earning.values() for entry in entries} - renewed
        if not missing:
            return
        # Not lost: a row that somebody else keeps locked was passed over, and is tried again soon.
        held = self.database.call(lambda: find_leased(missing, [child.id for child in earning], self.backend))
        if held:
            self.renewing.hurry(1.0)
        for child, entries in earning.items():
            self.send_lost_to(child, [entry for entry in entries if entry.task_id in missing - held])

    def send_lost_to(self, child: ChildProcess, lost: list[Entry]) -> None:
        # What has ended meanwhile is not lost; the child ignores such a message by itself.
        open_now = {(e.task_id, e.attempts): e for e in child.entries(State.CLAIMED, State.STARTED)}
        gone = [open_now[key] for entry in lost if (key := (entry.task_id, entry.attempts)) in open_now]
        for entry in gone:
            child.inflight.revoke(entry)
        if gone:
            ids = {entry.task_id for entry in gone}
            cancelled = self.database.call(lambda: find_cancelled(ids, self.backend))
            child.send(LeasesLost(tuple(map(str, ids)), tuple(map(str, cancelled))))
