"""Orphan recovery: speaks for children that cannot, about the leases of the dead and the timeouts of the stuck."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from uuid import UUID

from ...rules.failure import Code, Failure
from ...rules.transitions import SUSPECT
from ...taskqueue import Failed, Lease, Outcome, Receipt, Released, finish, leases_of, recover
from ..shared.database import DatabaseCaller, Unavailable
from ..shared.inflight import State
from ..shared.outcomes import OutcomeRecorder, Recorded
from .child_process import ChildProcess, Death

SECOND_LOOK_SECONDS = 2.0
MOST_AT_ONCE = 500


@dataclass(frozen=True, slots=True, eq=False)
class DeadChild:
    """A child whose leases are to be released or recovered, from `due` on."""

    child: ChildProcess
    cause: str
    due: float = 0.0


class OrphanRecovery:
    def __init__(self, supervisor_id: str, backend: str, database: DatabaseCaller, recorder: OutcomeRecorder) -> None:
        self.actor, self.backend, self.database, self.recorder = supervisor_id, backend, database, recorder
        self.dead: list[DeadChild] = []
        self.has_crashed = False
        """A process has died since somebody last asked, so there may be a task to run alone."""

    def add(self, child: ChildProcess, cause: str) -> None:
        self.dead.append(DeadChild(child, cause))

    @property
    def is_urgent(self) -> bool:
        return any(not dead.due for dead in self.dead)

    def tick(self) -> int:
        """Recover what dead children held; try again next time where the database is away. Returns the tasks."""
        recovered = 0
        for dead in [dead for dead in self.dead if dead.due <= monotonic()]:
            if not self.database.is_available:
                break
            with suppress(Unavailable):
                recovered += self.recover(dead.child, dead.cause)
                self.dead.remove(dead)
                if not dead.child.said_goodbye and not dead.due:
                    # A claim may still have been under way in the server when the process died.
                    self.dead.append(DeadChild(dead.child, "the claimer died", monotonic() + SECOND_LOOK_SECONDS))
        return recovered

    def recover(self, child: ChildProcess, cause: str) -> int:
        """What had started is lost, its attempt spent. What had not, or was ended by our own decision, is refunded."""
        if child.overdue:
            self.record_timeouts(child)
        leases = self.leases_of(child)
        begun = set() if child.is_killed else {entry.task_id for entry in child.entries(State.STARTED, State.ENDED)}
        self.record([Released(lease, cause, actor=self.actor) for lease in leases if lease.id not in begun], child)
        if any(lease.id in begun for lease in leases):
            self.recover_begun([lease for lease in leases if lease.id in begun], child, cause)
        return len(leases)

    def recover_begun(self, leases: list[Lease], child: ChildProcess, cause: str) -> None:
        """Each of them was there when the process died. What killed also the process that it had for itself fails."""
        death = child.death if child.death and child.death.is_crash else None
        if child.is_alone and death:
            crashed: list[Outcome] = [
                Failed(lease, crash_of(cause, death), self.actor, death.facts) for lease in leases
            ]
            self.record(crashed, child)
            return
        facts = death.facts if death else {}
        lost = self.database.call(
            lambda: recover(
                backend=self.backend, actor=self.actor, dead=child.id, cause=cause, crashed=bool(death), facts=facts
            )
        )
        self.tell(lost, child)
        self.has_crashed = self.has_crashed or bool(death)

    def record_timeouts(self, child: ChildProcess) -> None:
        """Functions that did not yield: fail their attempts in their name."""
        stuck = [lease for lease in self.leases_of(child) if (lease.id, lease.attempts) in child.overdue]
        self.record([Failed(lease, timeout_of(lease), actor=self.actor) for lease in stuck], child)
        child.give_up_overdue()

    def release_unstarted(self, child: ChildProcess, unstarted: set[tuple[UUID, int]]) -> None:
        """Attempts that were revoked before they began."""
        reason = "it was claimed and did not start"
        leases = [lease for lease in self.leases_of(child) if (lease.id, lease.attempts) in unstarted]
        self.record([Released(lease, reason, actor=self.actor) for lease in leases], child)

    def leases_of(self, child: ChildProcess) -> list[Lease]:
        return self.database.call(lambda: leases_of(child.id, self.backend))

    def record(self, outcomes: list[Outcome], child: ChildProcess) -> None:
        for start in range(0, len(outcomes), MOST_AT_ONCE):
            part = outcomes[start : start + MOST_AT_ONCE]
            receipts = self.database.call(lambda part=part: finish(part))  # type: ignore[misc]
            reasons = [reason_of(outcome) for outcome in part]
            self.tell(receipts, child, reasons)

    def tell(self, receipts: list[Receipt], child: ChildProcess, reasons: list[str] | None = None) -> None:
        """Whatever was recorded leaves by the one exit, with how long it ran as far as the child's table tells."""
        ran = {
            entry.task_id: (entry.ended or monotonic()) - entry.started for entry in child.entries() if entry.started
        }
        for receipt, reason in zip(receipts, reasons or [r.cause for r in receipts], strict=True):
            if receipt.accepted:
                self.recorder.recorded(Recorded(receipt, reason, ran.get(receipt.lease.id, 0.0)), receipt)


def reason_of(outcome: Outcome) -> str:
    if isinstance(outcome, Released):
        return outcome.reason
    return "it killed its process" if isinstance(outcome, Failed) and outcome.facts else "did not yield"


def crash_of(cause: str, death: Death) -> Failure:
    message = (
        f"It killed its process {SUSPECT} times, ran alone in a process of its own, and killed that too: {cause}. "
        f"Peak memory: {death.peak_memory / 1024**2:.0f} MiB."
    )
    return Failure(message, Code.CRASHED, exception="", traceback="")


def timeout_of(lease: Lease) -> Failure:
    message = f"The attempt ran longer than its timeout of {lease.timeout:g} s and did not yield to TaskTimeout."
    return Failure(message, Code.TIMEOUT, "django_tasks_retry.errors.TaskTimeout", message)
