"""The crash kit: kill a task between claim, effect and record, and see what is done twice."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias

from django.apps import apps
from django.core import mail
from django.db import transaction

from ..bridge import read_result
from ..conf import options
from ..errors import Suspend
from ..models import Task
from ..rules.policy import policy_of
from ..taskqueue import EnqueueOptions, Failed, Lease, Outcome, claim, database, enqueue, recover
from ..worker.child.attempt import Attempt
from ..worker.child.call import BoundCall
from .calls import Expected
from .inline import hooks_run_after, perform, run_inline

if TYPE_CHECKING:
    from .harness import Tasks

Observe: TypeAlias = Callable[[], Any]
NEEDED = 3
MOST_URGENT = 100


@dataclass(frozen=True)
class CrashReport:
    """Observations before the task ran, after its worker was killed, and after the task ran again."""

    call: str
    atomic: bool
    before: Any
    after_crash: Any
    after_recovery: Any
    history: list[str]
    error: str = ""

    @property
    def idempotent(self) -> bool:
        """Return whether being run twice came to the same as being run once."""
        undone = self.atomic and self.after_crash == self.before
        return not self.error and (undone or self.after_recovery == self.after_crash)

    @property
    def observed(self) -> bool:
        """Return whether the task changed anything that was observed at all."""
        return not self.before == self.after_crash == self.after_recovery

    @property
    def verdict(self) -> str:
        if self.error:
            return f"not idempotent: the second run failed with {self.error}"
        if not self.idempotent:
            return "not idempotent: the second run changed what the first had done"
        if not self.observed:
            return "nothing observed: pass observe=, a function that returns what the task changes"
        return "idempotent: the crash left no trace"

    def __str__(self) -> str:
        return (
            f"{self.call} is {self.verdict}.\n"
            f"  before                      {self.before!r}\n"
            f"  killed before the record    {self.after_crash!r}\n"
            f"  recovered and run again     {self.after_recovery!r}\n"
            f"  attempts                    {', '.join(self.history)}"
        )


def crash(tasks: Tasks, expected: Expected, observe: Observe | None) -> CrashReport:
    observe = observe or (lambda: everyday_effects(tasks.using))
    task_id = enqueue_urgently(expected, tasks.backend).pk
    atomic = policy_of(expected.task.func).atomic
    before = observe()
    claim_it(tasks, task_id)
    lose_the_worker(tasks)
    run_without_record(claim_it(tasks, task_id))
    after_crash = observe()
    lose_the_worker(tasks)
    attempt = run_inline(claim_it(tasks, task_id))
    error = attempt.receipt.error if attempt.receipt else None
    failure = f"{error['exception']}: {error['message']}" if error else ""
    history = tasks.history(read_result(str(task_id), tasks.backend))
    return CrashReport(str(expected), atomic, before, after_crash, observe(), history, failure)


def everyday_effects(using: str) -> dict[str, int]:
    """Return how many rows each model has that is not the queue's own, and how many mails were sent."""
    counts = {
        model._meta.label: model._default_manager.using(using).count()
        for model in apps.get_models()
        if model._meta.app_label != Task._meta.app_label and model._meta.managed
    }
    return {name: count for name, count in counts.items() if count} | {"mails": len(getattr(mail, "outbox", ()))}


def enqueue_urgently(expected: Expected, backend: str) -> Task:
    """Enqueue with a budget that outlives two crashes, ahead of all that is due."""
    budget = max(NEEDED, policy_of(expected.task.func).budget(options(backend).max_attempts))
    return enqueue(
        EnqueueOptions(
            expected.task.func,
            expected.args,
            expected.kwargs,
            backend=backend,
            max_attempts=budget,
            priority=MOST_URGENT,
        )
    )


def claim_it(tasks: Tasks, task_id: Any) -> Lease:
    [lease] = claim(tasks.worker_id, backend=tasks.backend)
    if lease.id != task_id:
        raise AssertionError(f"{lease.func_path} is due as well, with the highest priority: run it first.")
    return lease


def lose_the_worker(tasks: Tasks) -> None:
    """Nobody renews the lease, it expires, and the task is taken back."""
    tasks.travel_to(tasks.travelled + timedelta(seconds=options(tasks.backend).lease + 1))
    recover(backend=tasks.backend)


class Killed(BaseException):
    """The worker dies here."""


def run_without_record(lease: Lease) -> None:
    """Do all that the task does, and die before it is recorded."""
    with hooks_run_after():
        outcome = perform(Attempt(lease, monotonic()), call_and_die)
    error = outcome.error if isinstance(outcome, Failed) else None
    if not isinstance(error, Killed | Suspend):
        raise AssertionError(f"{lease.func_path} cannot be crashed, for it fails by itself: {error!r}")


def call_and_die(attempt: Attempt, call: BoundCall) -> Outcome:
    """An atomic task's writes die with its transaction."""
    with transaction.atomic(database(attempt.lease.backend)) if call.is_atomic else nullcontext():
        call.task.call(*call.args, **call.kwargs)
        raise Killed
