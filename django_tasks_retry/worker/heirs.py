"""Speaks for children that cannot: gives back the leases of the dead, and records the timeouts of the stuck."""

from __future__ import annotations

import logging
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

from ..rules.failure import Code, Failure
from ..rules.status import Status
from ..taskqueue import Failed, Lease, Receipt, Released, finish, leases_of, recover
from .board import State
from .fork import ChildProcess
from .weather import Trouble, Weather

logger = logging.getLogger("django_tasks_retry")
SECOND_LOOK_SECONDS = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class Estate:
    """What a child left behind, to be looked at from `due` on."""

    child: ChildProcess
    cause: str
    due: float = 0.0


class Heirs:
    def __init__(self, supervisor_id: str, backend: str, weather: Weather) -> None:
        self.actor, self.backend, self.weather = supervisor_id, backend, weather
        self.estates: list[Estate] = []
        self.tally: Counter[str] = Counter()

    def inherit(self, child: ChildProcess, cause: str) -> None:
        self.estates.append(Estate(child, cause))

    @property
    def has_urgent(self) -> bool:
        return any(not estate.due for estate in self.estates)

    def settle(self) -> int:
        """Give back what dead children held; try again next time where the database is away. Returns the tasks."""
        given_back = 0
        for estate in [estate for estate in self.estates if estate.due <= monotonic()]:
            if not self.weather.is_fine:
                break
            with suppress(Trouble):
                given_back += self.give_back(estate.child, estate.cause)
                self.estates.remove(estate)
                if estate.child.farewell is None and not estate.due:
                    # A claim may still have been under way in the server when the process died.
                    self.estates.append(Estate(estate.child, "the claimer died", monotonic() + SECOND_LOOK_SECONDS))
        return given_back

    def give_back(self, child: ChildProcess, cause: str) -> int:
        """What had started is lost, its attempt spent. What had not, or was ended by our own decision, is refunded."""
        if child.overdue:
            self.record_timeouts(child)
        leases = self.weather.ask(lambda: leases_of(child.id, self.backend))
        spent = set() if child.killed else {e.task_id for e in child.entries(State.STARTED, State.ENDED)}
        refunded = [Released(lease, cause, actor=self.actor) for lease in leases if lease.id not in spent]
        self.weather.ask(lambda: finish(refunded))
        if len(refunded) < len(leases):
            lost = self.weather.ask(lambda: recover(backend=self.backend, actor=self.actor, dead=child.id, cause=cause))
            for receipt in lost:
                self.tell_lost(receipt, cause)
        return len(leases)

    def tell_lost(self, receipt: Receipt, cause: str) -> None:
        task, ended = receipt.lease, " · no attempt left, FAILED" if receipt.status is Status.FAILED else ""
        facts = {"event": "lost", "task_id": str(task.id), "task": task.func_path, "attempt": task.attempts}
        self.tally["lost"] += 1
        logger.warning(
            "lost      %s %s attempt=%d · %s%s",
            *(task.func_path.rpartition(".")[2], str(task.id)[-12:], task.attempts, cause, ended),
            extra={"facts": facts | {"reason": cause, "status": receipt.status}},
        )

    def record_timeouts(self, child: ChildProcess) -> None:
        """Functions that did not yield: fail their attempts in their name."""
        leases = self.weather.ask(lambda: leases_of(child.id, self.backend))
        stuck = [lease for lease in leases if (lease.id, lease.attempts) in child.overdue]
        outcomes = [Failed(lease, timeout_of(lease), actor=self.actor) for lease in stuck]
        for receipt in self.weather.ask(lambda: finish(outcomes)):
            self.tell_timeout(receipt)
        child.settle_overdue()

    def tell_timeout(self, receipt: Receipt) -> None:
        lease = receipt.lease
        word = "retry" if receipt.status is Status.PENDING else "failed"
        facts = {"event": word, "task_id": str(lease.id), "task": lease.func_path, "attempt": lease.attempts}
        self.tally[word] += receipt.accepted
        logger.error(
            "%-9s %s %s queue=%s attempt=%d/%d · did not yield to its timeout of %gs; its process is replaced",
            *(word, lease.func_path.rpartition(".")[2], str(lease.id)[-12:], lease.queue),
            *(lease.attempts, lease.max_attempts, lease.timeout),
            extra={"facts": facts | {"queue": lease.queue, "max_attempts": lease.max_attempts}},
        )


def timeout_of(lease: Lease) -> Failure:
    message = f"The attempt ran longer than its timeout of {lease.timeout:g} s and did not yield to TaskTimeout."
    return Failure(message, Code.TIMEOUT, "django_tasks_retry.errors.TaskTimeout", message)
