"""The watchdog: ends what children cannot end themselves, within stated bounds.

Functions that do not yield to their timeout, attempts that never start, leases that ran out, main threads that hang.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from uuid import UUID

from ...conf import options as queue_options
from ..shared.database import DatabaseCaller, Unavailable
from ..shared.inflight import State
from ..shared.messages import Ping, StopReason
from .child_process import ChildProcess
from .leases import START_SECONDS, LeaseRenewal
from .orphans import OrphanRecovery

logger = logging.getLogger(__name__)
HANG_SECONDS = 10.0
"""A child's main thread may be this much later than it promised."""
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
            stale = revoked_long_ago(child)
            with suppress(Unavailable):
                if unstarted := stale - child.released:
                    self.orphans.release_unstarted(child, unstarted)
                child.released = stale


def revoked_long_ago(child: ChildProcess) -> set[tuple[UUID, int]]:
    """Return attempts that did not start and never will: the child has had time to see that they are revoked."""
    latest = monotonic() - START_SECONDS - REVOKE_SECONDS
    entries = child.entries(State.CLAIMED)
    return {(entry.task_id, entry.attempts) for entry in entries if entry.revoked and entry.claimed < latest}
