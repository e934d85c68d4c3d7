"""Orphan recovery: records outcomes for children that cannot: leases of the dead, timeouts of the stuck."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from uuid import UUID

from ...models import TaskEvent
from ...rules.failure import Code, Failure
from ...rules.transitions import POISON_AFTER, EventKind
from ...taskqueue import Failed, Lease, Outcome, Receipt, Released, finish, leases_of, recover
from ..child.process import EXIT_CRIPPLED
from ..shared.database import DatabaseCaller, Unavailable
from ..shared.inflight import State
from ..shared.outcomes import AttemptResult, OutcomePublisher
from .child_process import ChildProcess, Exit

SECOND_LOOK_SECONDS = 2.0
MOST_AT_ONCE = 500
MOST_EXCUSES = 2
"""The number of refunds of a task that was cut short beside others: after a crash, a child runs one at a time."""
OF_NEIGHBOUR = "a neighbour may have caused it"


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
        self.has_crashed = False
        """A process has died since somebody last asked, so there may be a task to run alone."""

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
        """Refund attempts that had not started, were ended by our own decision, or died of a neighbour.

        The others are lost: their attempts stay spent.
        """
        if child.overdue:
            self.record_timeouts(child)
        leases = self.leases_of(child)
        begun = {entry.task_id for entry in child.entries(State.STARTED, State.ENDED)}
        if child.is_killed and not child.is_hung:
            begun = set()
        neighbours = self.neighbours(child, [lease.id for lease in leases if lease.id in begun])
        reasons = {lease.id: cause for lease in leases if lease.id not in begun}
        reasons |= dict.fromkeys(neighbours, f"{cause} · {OF_NEIGHBOUR}")
        released = [lease for lease in leases if lease.id in reasons]
        self.record([Released(lease, reasons[lease.id], actor=self.actor) for lease in released], child)
        if lost := [lease for lease in leases if lease.id not in reasons]:
            self.recover_begun(lost, child, cause)
        return len(leases)

    def neighbours(self, child: ChildProcess, begun: list[UUID]) -> set[UUID]:
        """Return tasks that were cut short, perhaps through the fault of another in the same process.

        If the child quit by itself, the task that damaged it has already returned: refund those still running or that
        raised. If it was killed, the cause is unknown: refund each task a few times, unless it was alone.
        """
        death = child.death
        excused = {entry.task_id for entry in child.running()}
        if death and death.code == EXIT_CRIPPLED:
            excused |= {entry.task_id for entry in child.entries(State.ENDED) if entry.raised}
        elif not child.is_hung:
            excused = (excused if death and death.by_decision else set(begun)) if len(begun) > 1 else set()
        excused.intersection_update(begun)
        if not excused:
            return excused
        excuses = self.database.call(lambda: self.count_excuses(excused))
        return {task_id for task_id in excused if excuses.get(task_id, 0) < MOST_EXCUSES}

    def count_excuses(self, tasks: set[UUID]) -> dict[UUID, int]:
        released = TaskEvent.objects.using(self.database.using).filter(
            task__in=tasks, kind=EventKind.RELEASED, data__reason__endswith=OF_NEIGHBOUR
        )
        return Counter(released.values_list("task_id", flat=True))

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


def reason_of(outcome: Outcome) -> str:
    if isinstance(outcome, Released):
        return outcome.reason
    return "it killed its process" if isinstance(outcome, Failed) and outcome.facts else "did not yield"


def crash_of(cause: str, death: Exit) -> Failure:
    message = (
        f"It killed its process {POISON_AFTER} times, ran alone in a process of its own, and killed that too: {cause}. "
        f"Peak memory: {death.peak_memory / 1024**2:.0f} MiB."
    )
    return Failure(message, Code.CRASHED, exception="", traceback="")


def timeout_of(lease: Lease) -> Failure:
    message = f"The attempt ran longer than its timeout of {lease.timeout:g} s and did not yield to TaskTimeout."
    return Failure(message, Code.TIMEOUT, "django_tasks_retry.errors.TaskTimeout", message)
