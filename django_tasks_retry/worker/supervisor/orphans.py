"""Orphan recovery: records outcomes for children that cannot: leases of the dead, timeouts of the stuck."""

from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from uuid import UUID

from ...rules.failure import Code, Failure
from ...rules.transitions import POISON_AFTER
from ...taskqueue import Failed, Lease, Outcome, Receipt, Released, finish, leases_of, recover
from ..child.process import OF_NEIGHBOUR
from ..shared.database import DatabaseCaller, Unavailable
from ..shared.inflight import State
from ..shared.outcomes import AttemptResult, OutcomePublisher
from .child_process import ChildProcess, Exit

SECOND_LOOK_SECONDS = 2.0
MOST_AT_ONCE = 500


@dataclass(frozen=True, slots=True, eq=False)
class DeadChild:
    """A child whose leases are to be released or recovered, from `due` on."""

    child: ChildProcess
    cause: str
    due: float = 0.0


class OrphanRecovery:
    def __init__(self, supervisor_id: str, backend: str, database: DatabaseCaller, publisher: OutcomePublisher) -> None:
        self.actor, self.backend, self.database, self.publisher = supervisor_id, backend, database, publisher
        self.dead: list[DeadChild] = []
        self.has_crashed = False  # a process has died since somebody last asked, so there may be a task to run alone

    def add(self, child: ChildProcess, cause: str) -> None:
        self.dead.append(DeadChild(child, cause))

    @property
    def is_urgent(self) -> bool:
        return any(not dead.due for dead in self.dead)

    def tick(self) -> int:
        """Recover what dead children held; if the database is away, try again next time. Return how many tasks."""
        recovered = 0
        for dead in [dead for dead in self.dead if dead.due <= monotonic()]:
            if not self.database.is_available:
                break
            with suppress(Unavailable):
                recovered += self.recover(dead.child, dead.cause)
                self.dead.remove(dead)
                if not dead.child.sent_goodbye and not dead.due:
                    # A claim may still have been under way in the server when the process died.
                    self.dead.append(DeadChild(dead.child, "the claimer died", monotonic() + SECOND_LOOK_SECONDS))
        return recovered

    def recover(self, child: ChildProcess, cause: str) -> int:
        """Refund attempts that had not started, were ended by our own decision, or may have died of a neighbour.

        The others are lost: their attempts stay spent.
        """
        if child.overdue:
            self.record_timeouts(child)
        leases = self.leases_of(child)
        entries = [] if child.is_killed and not child.is_hung else child.entries(State.STARTED, State.ENDED)
        begun = {(entry.task_id, entry.attempts) for entry in entries}
        lost = [lease for lease in leases if (lease.id, lease.attempts) in begun]
        unstarted = [lease for lease in leases if (lease.id, lease.attempts) not in begun]
        self.record([Released(lease, cause, actor=self.actor) for lease in unstarted], child)
        if lost and is_excused(child, len(lost)):
            reason = f"{cause} · {OF_NEIGHBOUR}"
            self.record([Released(lease, reason, actor=self.actor, is_suspect=True) for lease in lost], child)
            self.has_crashed = True
        elif lost:
            self.recover_begun(lost, child, cause)
        return len(leases)

    def recover_begun(self, leases: list[Lease], child: ChildProcess, cause: str) -> None:
        """Recover tasks that ran when the process died. A task that also killed a process of its own fails."""
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
        self.publish(lost, child)
        self.has_crashed = self.has_crashed or bool(death)

    def record_timeouts(self, child: ChildProcess) -> None:
        """Fail the attempts of functions that did not yield to their timeout."""
        stuck = [lease for lease in self.leases_of(child) if (lease.id, lease.attempts) in child.overdue]
        self.record([Failed(lease, timeout_of(lease), actor=self.actor) for lease in stuck], child)
        child.give_up_overdue()

    def release_unstarted(self, child: ChildProcess, unstarted: set[tuple[UUID, int]]) -> None:
        """Release attempts that were revoked before they began."""
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
            self.publish(receipts, child, reasons)

    def publish(self, receipts: list[Receipt], child: ChildProcess, reasons: list[str] | None = None) -> None:
        """Publish what was recorded, with its run time as far as the child's table tells."""
        ran = {
            entry.task_id: (entry.ended or monotonic()) - entry.started for entry in child.entries() if entry.started
        }
        for receipt, reason in zip(receipts, reasons or [r.cause for r in receipts], strict=True):
            if receipt.accepted:
                self.publisher.publish(AttemptResult(receipt, reason, ran.get(receipt.lease.id, 0.0)))


def is_excused(child: ChildProcess, begun: int) -> bool:
    """Return whether a task is refunded that had begun, as another may be why its process died.

    Each such death counts for all of them: after two in a row a task runs alone, and can blame nobody.
    """
    if child.is_alone or child.is_hung:
        return not child.is_alone
    return child.death is not None and child.death.is_crash and (begun > 1 or child.death.by_decision)


def reason_of(outcome: Outcome) -> str:
    if isinstance(outcome, Released):
        return outcome.reason
    return "its process died" if isinstance(outcome, Failed) and outcome.facts else "did not yield"


def crash_of(cause: str, death: Exit) -> Failure:
    message = (
        f"Its process died {POISON_AFTER} times in a row, and so did the one in which it then ran alone: {cause}. "
        f"Peak memory: {death.peak_memory / 1024**2:.0f} MiB."
    )
    return Failure(message, Code.CRASHED, exception="", traceback="")


def timeout_of(lease: Lease) -> Failure:
    message = f"The attempt ran longer than its timeout of {lease.timeout:g} s and did not yield to TaskTimeout."
    return Failure(message, Code.TIMEOUT, "django_tasks_retry.errors.TaskTimeout", message)
