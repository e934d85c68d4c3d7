"""Soft limits: interrupts attempts that run too long or lost their lease, and gives back those that cannot start."""

from collections.abc import Iterable, Set
from time import monotonic

from ...errors import TaskCancelled, TaskTimeout
from ...taskqueue import Released
from ..shared.inflight import InFlightTable
from .attempt import Attempt, conclude, valid_from
from .executors import LoopExecutor, ThreadExecutor
from .outbox import Outbox
from .prefetch import ClaimBudget
from .process import EXIT_FENCED, leave

STARVED_SECONDS = 1.0


class Timeouts:
    def __init__(
        self,
        attempts: Set[Attempt],
        inflight: InFlightTable,
        lease: float,
        threads: ThreadExecutor,
        loop: LoopExecutor,
        outbox: Outbox,
        budget: ClaimBudget,
    ) -> None:
        self.attempts, self.inflight, self.lease = attempts, inflight, lease
        self.threads, self.loop, self.outbox, self.budget = threads, loop, outbox, budget
        self.margin = min(1.0, lease / 10)
        self.loop_is_abandoned = False

    def tick(self) -> None:
        now, starved = monotonic(), False
        for attempt in self.attempts:
            if attempt.is_running:
                self.check(attempt, now)
            elif not attempt.started and not attempt.is_async:
                starved = starved or now - attempt.claimed > STARVED_SECONDS
        if starved:
            self.release_starved(now)
        self.loop.probe()
        if self.loop.is_blocked:
            self.release_behind_blocker()

    def release_starved(self, now: float) -> None:
        """Release what was claimed a second ago and has not begun: others may have a slot for it."""
        waiting = self.threads.withdraw_waiting()
        if waiting:
            self.release(waiting, "waited behind long tasks")
            self.budget.prefetch.note_given_back(now)

    def release_behind_blocker(self) -> None:
        coroutines = self.loop.withdraw_waiting()
        if coroutines:
            self.release(coroutines, "waited behind a coroutine that does not yield")
            self.budget.rest_loop()
        if self.loop_is_abandoned:
            self.release_running_coroutines()

    def release_running_coroutines(self) -> None:
        """Release coroutines of a loop that is blocked for good: they begin anew in another process."""
        running = [a for a in self.attempts if a.is_async and not a.ended and a.report is None]
        for attempt in running:
            self.interrupt(attempt, TaskCancelled("Another coroutine blocked the event loop."))
        self.release(running, "another coroutine blocked the event loop")

    def release(self, attempts: Iterable[Attempt], reason: str) -> None:
        """Hand back what has not been done, its attempts refunded."""
        for attempt in attempts:
            attempt.report = conclude(attempt, Released(attempt.lease, reason))
            attempt.ended = monotonic()
            attempt.started = attempt.started or attempt.ended
            self.inflight.end(attempt.place, attempt.ended)
            self.outbox.add([attempt])

    # Deadlines and leases

    def check(self, attempt: Attempt, now: float) -> None:
        valid_until = self.valid_until(attempt)
        if attempt.interruption is None and now >= attempt.deadline:
            message = f"The attempt ran longer than its timeout of {attempt.lease.timeout:g} s."
            self.interrupt(attempt, TaskTimeout(message))
        if attempt.interruption is None and now >= valid_until - self.margin:
            self.interrupt(attempt, TaskCancelled("The lease could not be renewed; another worker may take the task."))

    def enforce_fence(self) -> None:
        """End the process if no lease was renewed in time. The thread that calls this waits for messages only.

        If one lease alone was not renewed, the supervisor replaces the process in good order.
        """
        now, asked = monotonic(), self.inflight.renewals_asked_at
        running = [attempt for attempt in list(self.attempts) if attempt.is_running]
        if any(now >= max(attempt.claimed, asked) + self.lease for attempt in running):
            leave(EXIT_FENCED)

    def valid_until(self, attempt: Attempt) -> float:
        """Return when the lease ends unless it is renewed once more."""
        return valid_from(attempt, self.inflight) + self.lease

    def next_check(self) -> float:
        """Return the first moment at which an attempt must be interrupted."""
        moments = [float("inf")]
        for attempt in self.attempts:
            if not attempt.is_running:
                continue
            valid_until = self.valid_until(attempt)
            moments += [valid_until] if attempt.interruption else [attempt.deadline, valid_until - self.margin]
        return min(moments)

    def interrupt_lost(self, tasks: Iterable[str], cancelled: Iterable[str]) -> None:
        """Interrupt attempts without a lease, except while they commit: that may be what ended the lease."""
        lost, was_cancelled = set(tasks), set(cancelled)
        for attempt in list(self.attempts):
            task_id = str(attempt.lease.id)
            if task_id in lost and not attempt.ended and not attempt.is_committing and attempt.interruption is None:
                why = "The task was cancelled." if task_id in was_cancelled else "The lease was lost."
                self.interrupt(attempt, TaskCancelled(why))

    def interrupt(self, attempt: Attempt, interruption: BaseException) -> None:
        """Interrupt an attempt. One that has not started yet sees it before it would."""
        attempt.interruption = interruption
        if attempt.started:
            (self.loop if attempt.is_async else self.threads).interrupt(attempt)

    def abandon(self, tasks: Iterable[str]) -> list[Attempt]:
        """Return attempts whose outcome others have recorded: what still runs of them is not waited for."""
        given_up = set(tasks)
        abandoned = [attempt for attempt in self.attempts if str(attempt.lease.id) in given_up]
        self.loop_is_abandoned = self.loop_is_abandoned or any(attempt.is_async for attempt in abandoned)
        return abandoned
