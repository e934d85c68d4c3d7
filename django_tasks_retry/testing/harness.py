"""Tasks inside a test: no worker, no commit, time at the test's command."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from django.db import DatabaseError
from django.db.models import F, Q

from .. import clock, registry, taskqueue
from ..bridge import AnyResult, read_result
from ..compat import TaskResult
from ..models import Queue, Task, TaskEvent
from ..registry import AnyTask
from ..rules.backoff import MAX_DELAY
from ..rules.failure import Code
from ..rules.queues import serves
from ..rules.transitions import EventKind
from ..worker.child.attempt import Attempt
from ..worker.options import new_worker_id
from .calls import Expected, expected_call, listing, rendered
from .crash import CrashReport, IdempotencyReport, Observe, check_idempotent, crash, everyday_effects
from .inline import run_inline

if TYPE_CHECKING:
    from unittest import TestCase as Base
else:
    Base = object


LIMIT = 1000
MAX_SLOTS = 100
ENDLESS = timedelta(seconds=MAX_DELAY / 2)

ENDS = {
    EventKind.COMPLETED: "successful",
    EventKind.FAILED: "failed",
    EventKind.RELEASED: "released",
    EventKind.LEASE_LOST: "lost",
    EventKind.CANCELLED: "cancelled",
}
"""The names that `history` gives to the end of an attempt."""


class Tasks:
    """Runs tasks, moves their clock and answers questions about them. Close it at the end of the test."""

    def __init__(self, backend: str = "default") -> None:
        self.backend = backend
        self.worker_id = new_worker_id("test")
        self.travelled = timedelta(0)
        self._failures: list[FailedAttempt] = []

    @property
    def using(self) -> str:
        return taskqueue.database(self.backend)

    def run_due(self, queues: Sequence[str] = ("*",), *, limit: int = LIMIT) -> list[AnyResult]:
        """Run what is due, and what becomes due by it, each task in a savepoint. Returns a result per attempt."""
        done: list[AnyResult] = []
        while leases := self.claim_due(queues):
            if len(done) == limit:
                raise AssertionError(f"After {limit} attempts there is still work: {leases[0].func_path} is due again.")
            failure = failure_of(run_inline(leases[0]))
            if failure is not None:
                self._failures.append(failure)
            done.append(read_result(str(leases[0].id), self.backend))
        return done

    def claim_due(self, queues: Sequence[str] = ("*",)) -> list[taskqueue.Lease]:
        """Cancel what has expired and claim what is due.

        Sweeps for signals: they wake tasks on commit, and a test's transaction never commits.
        """
        while taskqueue.expire(backend=self.backend, actor=self.worker_id):
            pass
        leases = taskqueue.claim(self.worker_id, queues, backend=self.backend)
        if not leases and (taskqueue.Sweep(self.backend).everything() or taskqueue.CanarySweep(self.backend)()):
            leases = taskqueue.claim(self.worker_id, queues, backend=self.backend)
        return leases

    def run_until_idle(self, queues: Sequence[str] = ("*",), *, limit: int = LIMIT) -> list[AnyResult]:
        """Run what is due, travel to the next eta, and so on until nothing waits.

        Does not wait for the next occurrence of a repeating task, which has no last one.
        """
        done = self.run_due(queues, limit=limit)
        while self.advance_to_next(queues):
            more = self.run_due(queues, limit=limit - len(done))
            if not more:
                break
            done += more
        return done

    def advance_to_next(self, queues: Sequence[str] = ("*",)) -> bool:
        """Travel to the next eta, past no slot of a schedule. Returns False if nothing waits for a time."""
        wait = self._next_wait(queues)
        if wait is not None:
            self.travel_to(self.travelled + wait)
        return wait is not None

    def _next_wait(self, queues: Sequence[str]) -> timedelta | None:
        waiting = Task.objects.using(self.using).pending().filter(backend=self.backend)
        waiting = waiting.filter(Q(interval=0) | Q(attempts__gt=F("refunds")), func_path__in=registry.known_paths())
        waiting = waiting.exclude(queue__in=Queue.objects.using(self.using).paused().values("name"))
        moment = clock.now(self.using)
        etas = [task.eta for task in waiting.order_by("eta") if serves(task.queue, queues)]
        # What waits for a signal without a timeout waits for nothing that time would bring.
        etas = [eta for eta in etas if eta - moment < ENDLESS]
        return max(timedelta(0), etas[0] - moment) if etas else None

    def advance(self, delta: timedelta = timedelta(0), **units: float) -> None:
        """Move the queue's clock forward: `advance(minutes=5)`, or by a timedelta. Not `timezone.now()`.

        Schedules enqueue their slots on the way, as workers would: one by one up to MAX_SLOTS, the rest at the end.
        """
        step = delta + timedelta(**units)
        if step < timedelta(0):
            raise ValueError(f"advance({step!r}): the queue's clock only moves forward.")
        listed, end = self._sync_schedules(), self.travelled + step
        for _slot in range(MAX_SLOTS):
            wait = taskqueue.next_due_in(backend=self.backend, listed=listed)
            if wait is None or self.travelled + timedelta(seconds=wait) > end:
                break
            self._tick_at(self.travelled + max(timedelta(0), timedelta(seconds=wait)), listed)
        self._tick_at(end, listed)

    def run_schedule(self, name: str) -> AnyResult:
        """Enqueue the call of a schedule now and run what is due. Return the call's result.

        A schedule in code without a name of its own has the path of its function.
        """
        self._sync_schedules()
        task = taskqueue.run_schedule_now(name, by=self.worker_id, backend=self.backend)
        self.run_due()
        return read_result(str(task.pk), self.backend)

    def _sync_schedules(self) -> list[str]:
        """Store the schedules of code and settings, as a worker does when it starts. Return their names."""
        listed = taskqueue.listed_names(self.backend)
        if listed:
            list(taskqueue.sync_schedules(backend=self.backend))
        return listed

    def _tick_at(self, travelled: timedelta, listed: Sequence[str]) -> None:
        self.travel_to(travelled)
        taskqueue.tick(backend=self.backend, actor=self.worker_id, listed=listed)

    def travel_to(self, travelled: timedelta) -> None:
        """Set the queue's clock this far from real time, also back."""
        self.travelled = travelled
        clock.shift(travelled, self.using)

    def enqueued(self, task: AnyTask | Callable[..., Any] | None = None) -> list[AnyResult]:
        """The results of everything that was enqueued, or of one task's calls, oldest first."""
        path = expected_call(task).path if task else None
        return [read_result(str(row.pk), self.backend) for row in self._rows() if path in (None, row.func_path)]

    def assert_enqueued(
        self,
        task: AnyTask | Callable[..., Any],
        /,
        *args: Any,
        queue: str | None = None,
        priority: int | None = None,
        **kwargs: Any,
    ) -> AnyResult:
        """The first result of a call with these arguments, as far as they are named; fails with what was enqueued.

        A parameter that is itself called `queue` or `priority` is named by position.
        """
        expected = expected_call(task, args, kwargs, queue, priority)
        rows = self._rows()
        for row in rows:
            if not expected.differences(row):
                return read_result(str(row.pk), self.backend)
        raise AssertionError(f"{expected} was not enqueued. {listing(expected, rows)}")

    def assert_not_enqueued(
        self,
        task: AnyTask | Callable[..., Any],
        /,
        *args: Any,
        queue: str | None = None,
        priority: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Fail if a call with these arguments was enqueued."""
        expected = expected_call(task, args, kwargs, queue, priority)
        rows = self._rows()
        if any(not expected.differences(row) for row in rows):
            raise AssertionError(f"{expected} was enqueued. {listing(expected, rows)}")

    def history(self, task: AnyResult | AnyTask | Callable[..., Any], /, *args: Any, **kwargs: Any) -> list[str]:
        """Return how each attempt ended: `["failed", "successful"]`. Takes a result, or the only matching call."""
        task_id = UUID(task.id) if isinstance(task, TaskResult) else self._only(expected_call(task, args, kwargs)).pk
        events = TaskEvent.objects.using(self.using).filter(task_id=task_id, kind__in=ENDS)
        return [ENDS[EventKind(event.kind)] for event in events if not repeats_a_loss(event)]

    def failure_report(self) -> str:
        """Return the errors and tracebacks of failed attempts. A test that fails shows it by itself."""
        return failure_report(self._failures)

    def crash(
        self, task: AnyTask | Callable[..., Any], /, *args: Any, observe: Observe | None = None, **kwargs: Any
    ) -> CrashReport:
        """Enqueue a call and kill its worker twice: before the effect, and between the effect and the record.

        The task is recovered and run again, as it would be in production. `observe` returns what the task is meant to
        change, in a form that can be compared; by default that is how many rows each model has, and the mails sent.
        `assert report.idempotent, report` tells whether the second run changed anything that the first had done.
        """
        return crash(self, expected_call(task, args, kwargs), observe or partial(everyday_effects, self.using))

    def check_idempotent(
        self, task: AnyTask | Callable[..., Any], /, *args: Any, observe: Observe | None = None, **kwargs: Any
    ) -> IdempotencyReport:
        """Run a call and all that it sets off, killed after each of its statements and steps in turn, and recovered.

        `assert report.idempotent, report` names each kill that left something else behind than an undisturbed
        run. Nothing of it stays in the database. `observe` is as for crash().
        """
        return check_idempotent(
            self, expected_call(task, args, kwargs), observe or partial(everyday_effects, self.using)
        )

    def close(self) -> None:
        """Give the clock back."""
        if self.travelled:
            self.travelled = timedelta(0)
            # In a transaction that the test has broken nothing can be run, and its rollback resets the clock.
            with suppress(DatabaseError):
                clock.shift(self.travelled, self.using)

    def _rows(self) -> list[Task]:
        return list(Task.objects.using(self.using).filter(backend=self.backend).order_by("pk"))

    def _only(self, expected: Expected) -> Task:
        rows = self._rows()
        found = [row for row in rows if not expected.differences(row)]
        if len(found) != 1:
            raise AssertionError(f"{len(found)} calls match {expected}; name one. {listing(expected, rows)}")
        return found[0]


def repeats_a_loss(event: TaskEvent) -> bool:
    """The failure that follows from a lost lease is not another attempt."""
    return event.kind == EventKind.FAILED and event.data["error"]["code"] == Code.LEASE_LOST


class TaskTestMixin(Base):
    """Gives a TestCase `self.tasks`. Mix it into `django.test.TestCase` or `TransactionTestCase`."""

    @cached_property
    def tasks(self) -> Tasks:
        harness = Tasks()
        self.addCleanup(harness.close)
        return harness

    def _callTestMethod(self, method: Callable[[], object]) -> None:  # noqa: N802 - unittest's name
        """Add the errors of its tasks to the error of a failed test."""
        try:
            super()._callTestMethod(method)  # type: ignore[misc]
        except Exception as error:
            if "tasks" in vars(self) and (report := self.tasks.failure_report()):
                error.add_note(f"Tasks that failed in this test:\n{report}")
            raise


SHOWN = 5


class FailedAttempt(NamedTuple):
    lease: taskqueue.Lease
    error: dict[str, Any]

    def __str__(self) -> str:
        named = {"args": self.lease.args, "kwargs": self.lease.kwargs}
        call = rendered(self.lease.func_path, {name: value for name, value in named.items() if value})
        words = ": ".join(filter(None, (self.error["exception"] or self.error["code"], self.error["message"])))
        head = f"{call}, attempt {self.lease.spent} of {self.lease.max_attempts}, failed with {words}"
        return f"{head}\n{textwrap.indent(self.error['traceback'] or '', '    ')}".rstrip()


def failure_of(attempt: Attempt) -> FailedAttempt | None:
    error = attempt.receipt.error if attempt.receipt else None
    return FailedAttempt(attempt.lease, error) if error else None


def failure_report(failures: Sequence[FailedAttempt]) -> str:
    """Return the latest failures with their tracebacks, or an empty text."""
    left_out = len(failures) - SHOWN
    lines = [f"… {left_out} earlier failed attempts are left out"] if left_out > 0 else []
    return "\n".join([*lines, *map(str, failures[-SHOWN:])])
