"""Lease renewal, for leases that are looked after; and the watchdog, which ends what children cannot end themselves.

Within stated bounds: functions that do not yield to their timeout, attempts that never start, leases that ran out, main
threads that hang.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from time import monotonic
from uuid import UUID

from django.db import Error

from ...clock import host_time
from ...conf import options as queue_options
from ...taskqueue import excludes_writers, find_cancelled, find_leased, renew_workers
from ..shared.database import DatabaseCaller, Unavailable
from ..shared.inflight import Entry, State
from ..shared.interval import Interval
from ..shared.messages import LeasesLost, LeasesRenewed, Ping, StopReason
from .child_process import ChildProcess
from .orphans import OrphanRecovery

logger = logging.getLogger(__name__)
START_SECONDS = 10.0
"""A claimed attempt must have begun by then; the child gives it back after one second, we after ten."""
RECORD_SECONDS = 120.0  # the outcome of an attempt that is over must be recorded by then
SETTLE_SECONDS = 0.3  # between renewals after a wait, until each lease is either renewed or in somebody else's hands


class LeaseRenewal:
    def __init__(self, supervisor_id: str, backend: str, database: DatabaseCaller) -> None:
        self.actor, self.backend, self.database = supervisor_id, backend, database
        self.options = queue_options(backend)
        self.renewing = Interval(min(10.0, self.options.lease / 4))
        self.asked_at = monotonic()
        self.waiting_since: datetime | None = None
        """The time, by the queue's clock, since which a lock that blocks all writers delays renewals."""
        self.settled_by = float("-inf")
        """The time until which a statement that waits in the server may still renew an expired lease."""

    def tick(self, children: Sequence[ChildProcess]) -> None:
        if self.renewing.is_due():
            self.renew(children)

    def renew(self, children: Sequence[ChildProcess]) -> None:
        """Renew what the children look after, and tell them what they no longer hold."""
        asked, since = monotonic(), self.waiting_since or host_time()
        earning = {child: self.earning_entries(child, asked) for child in children}
        known = {entry.task_id for entries in earning.values() for entry in entries}
        renewed, self.waiting_since = set[UUID](), None
        if known:
            try:
                renewed = self.renew_known(known, [child.id for child in children], since)
                renewed |= self.send_lost(earning, known - renewed)
            except Unavailable as error:
                self.renewing.soon()
                if not self.excludes_writers(error):
                    return
                # Nobody can write, so nobody can take these tasks: their leases hold, and are renewed as of now later.
                asked, self.waiting_since = monotonic(), since
                self.settled_by = asked + self.options.lease
                self.database.try_after = asked + self.renewing.seconds  # others would wait in vain, and we with them
                renewed = {entry.task_id for entries in earning.values() for entry in entries if self.holds(entry)}
        self.asked_at = asked
        for child, entries in earning.items():
            child.inflight.note_renewals(asked, [entry for entry in entries if entry.task_id in renewed])
            child.send(LeasesRenewed())

    def earning_entries(self, child: ChildProcess, now: float) -> list[Entry]:
        return [entry for entry in child.entries() if self.earns_renewal(entry, now)]

    def renew_known(self, known: set[UUID], workers: list[str], asked: datetime) -> set[UUID]:
        seconds = self.options.lease
        return self.database.call(
            lambda: renew_workers(workers, seconds, actor=self.actor, backend=self.backend, known=known, asked=asked)
        )

    def excludes_writers(self, error: Unavailable) -> bool:
        try:
            return self.database.call_once(lambda: excludes_writers(error.__cause__, self.backend))
        except (Error, OSError):
            self.database.forget_connection()
            return False

    def holds(self, entry: Entry) -> bool:
        """Return whether the attempt is in time: past its timeout, its own transaction may be what locks the table."""
        return entry.state is not State.STARTED or monotonic() <= entry.deadline + self.options.timeout_grace

    def earns_renewal(self, entry: Entry, now: float) -> bool:
        """Return whether the attempt makes progress within stated bounds; being in the table is not enough."""
        match entry.state:
            case State.CLAIMED:
                return not entry.revoked and now - entry.claimed <= START_SECONDS
            case State.STARTED:
                return now <= entry.deadline + self.options.timeout_grace + RECORD_SECONDS
            case State.ENDED:
                return now - entry.ended <= RECORD_SECONDS or self.waiting_since is not None
            case _:
                return False

    def send_lost(self, earning: dict[ChildProcess, list[Entry]], missing: set[UUID]) -> set[UUID]:
        """Tell children which tasks they lost. Return those that were not renewed and are held all the same.

        A renewal that began in time and waited in the server for a table lock is carried out when the lock is free, but
        PostgreSQL may run this later one first. The lease has expired meanwhile, and nobody has taken the task.
        """
        if not missing:
            self.settled_by = float("-inf")
            return missing
        may_settle, workers = monotonic() < self.settled_by, [child.id for child in earning]
        # Not lost: a row that somebody else keeps locked was passed over, and is tried again soon.
        held = self.database.call(lambda: find_leased(missing, workers, self.backend, or_expired=may_settle))
        if held:
            self.renewing.soon(SETTLE_SECONDS if may_settle else 1.0)
        for child, entries in earning.items():
            self.send_lost_to(child, [entry for entry in entries if entry.task_id in missing - held])
        return held if may_settle else set()

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


HANG_SECONDS = 10.0  # a child's main thread may be this much later than it promised
ANSWER_SECONDS = 2.0
REVOKE_SECONDS = 0.5


class Watchdog:
    def __init__(self, backend: str, database: DatabaseCaller, leases: LeaseRenewal, orphans: OrphanRecovery) -> None:
        self.options = queue_options(backend)
        self.database, self.leases, self.orphans = database, leases, orphans

    def tick(self, children: Sequence[ChildProcess]) -> None:
        for child in children:
            self.enforce_timeouts(child)
            self.enforce_leases(child)
            self.enforce_progress(child)
        self.release_revoked(children)

    def enforce_timeouts(self, child: ChildProcess) -> None:
        """Replace the process of a function that did not yield to TaskTimeout in time; neighbours end first."""
        child.note_overdue(monotonic() - self.options.timeout_grace)
        if child.overdue and child.stop_reason is not StopReason.TIMEOUT:
            child.ask_to_stop(StopReason.TIMEOUT)  # so that it does not claim the next attempt itself
        if child.overdue and self.database.is_available:
            with suppress(Unavailable):
                self.orphans.record_timeouts(child)
                child.ask_to_stop(StopReason.TIMEOUT)
        if child.overdue or child.given_up:
            child.send(Ping())
            if child.is_hopeless():
                child.kill()

    def enforce_leases(self, child: ChildProcess) -> None:
        """End what runs under a lease that ran out."""
        now, lease = monotonic(), self.options.lease
        over = [entry for entry in child.running() if entry.valid_from + lease < now]
        if any(max(entry.claimed, self.leases.asked_at) + lease < now for entry in over):
            child.kill()  # no lease could be renewed for so long
            return
        # One alone: a row that somebody keeps locked. The child has interrupted it; if it does not yield, the child is
        # replaced, and its neighbours end first.
        late = {entry.task_id for entry in over if entry.valid_from + lease + self.options.timeout_grace < now}
        if late - child.given_up:
            child.given_up |= late
            child.ask_to_stop(StopReason.LEASE_EXPIRED)

    def enforce_progress(self, child: ChildProcess) -> None:
        """Replace a child whose main thread hangs, in a write to its log for one: it records nothing."""
        late = monotonic() - child.inflight.back_by
        if late > HANG_SECONDS:
            child.send(Ping())
            holds_interpreter = child.silent_seconds > ANSWER_SECONDS
            if late > HANG_SECONDS + ANSWER_SECONDS and not (holds_interpreter and self.runs_in_time(child)):
                logger.error("child %s hangs: its main thread is %.0f s late; it is replaced", child.id, late)
                child.is_hung = True
                child.kill()
        for entry in child.entries(State.CLAIMED):
            if monotonic() - entry.claimed > START_SECONDS and not entry.revoked:
                child.inflight.revoke(entry)

    def runs_in_time(self, child: ChildProcess) -> bool:
        """Return whether a function in time holds the interpreter: its child is silent, and the timeout will end it."""
        now = monotonic()
        return any(entry.deadline + self.options.timeout_grace >= now for entry in child.running())

    def release_revoked(self, children: Sequence[ChildProcess]) -> None:
        """Release, refunded, what was claimed long ago and cannot start any more."""
        for child in children if self.database.is_available else ():
            latest = monotonic() - START_SECONDS - REVOKE_SECONDS
            entries = child.entries(State.CLAIMED)
            stale = {(entry.task_id, entry.attempts) for entry in entries if entry.revoked and entry.claimed < latest}
            with suppress(Unavailable):
                if unstarted := stale - child.released:
                    self.orphans.release_unstarted(child, unstarted)
                child.released = stale
