"""The crash kit: kill a task between claim, effect and record, or after each statement, and see what is done twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias

from django.apps import apps
from django.core import mail
from django.db import connections, transaction

from ..bridge import read_result
from ..conf import options
from ..errors import Suspend
from ..models import Step, Task
from ..rules.policy import policy_of
from ..rules.status import Status
from ..taskqueue import EnqueueOptions, Failed, Lease, Outcome, claim, database, enqueue, recover
from ..taskqueue.workflows import ASKED, SIGNAL, StepKind
from ..worker.child.attempt import Attempt
from ..worker.child.call import BoundCall
from ..worker.child.pipeline import error_of, run_and_record
from .calls import Expected
from .inline import hooks_run_after, perform, run_inline

if TYPE_CHECKING:
    from .harness import Tasks

Observe: TypeAlias = Callable[[], Any]
NEEDED = 3
MOST_URGENT = 100
MOST_POINTS = 500
STEP = Step._meta.db_table


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


def crash(tasks: Tasks, expected: Expected, observe: Observe) -> CrashReport:
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
    call = EnqueueOptions(expected.task.func, expected.args, expected.kwargs, backend=backend)
    return enqueue(call._replace(max_attempts=budget, priority=MOST_URGENT))


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


# Killed after each statement in turn


@dataclass(frozen=True)
class Crash:
    """One place to be killed at, and what came of it."""

    place: str
    differs: str = ""
    is_asked: bool = False
    """Whether it waits for a person, who is asked whether an effect happened."""

    def __str__(self) -> str:
        return f"  {self.place}: {self.differs}"


@dataclass(frozen=True)
class IdempotencyReport:
    """The effects of an undisturbed task, and the kills that changed them."""

    call: str
    undisturbed: Any
    crashes: list[Crash] = field(default_factory=list)

    @property
    def idempotent(self) -> bool:
        """Return whether a crash at any place came to the same as none."""
        return not self.harmful

    @property
    def harmful(self) -> list[Crash]:
        return [crash for crash in self.crashes if crash.differs]

    def __str__(self) -> str:
        head = f"{self.call} was killed at {len(self.crashes)} places and recovered. Undisturbed: {self.undisturbed!r}"
        if asked := sum(crash.is_asked for crash in self.crashes):
            head += f"\n  A person was asked about an unknown effect after {asked} of them."
        if self.idempotent:
            return f"{head}\n  It came to the same each time."
        return "\n".join([head, *map(str, self.harmful)])


class Killer:
    """Counts the statements of the tasks' own attempts, and dies after one, or before the outcome of an effect."""

    def __init__(self, nth: int = 0) -> None:
        self.nth, self.seen, self.place = nth, 0, ""

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:  # noqa: FBT001 - as Django calls it
        if writes_step(sql) and StepKind.EFFECT in (params.values() if isinstance(params, Mapping) else params or ()):
            self.pass_point("before", sql, params)
        answer = execute(sql, params, many, context)
        if not sql.startswith(("SAVEPOINT", "RELEASE", "ROLLBACK")):
            self.pass_point("after", sql, params)
        return answer

    def pass_point(self, when: str, sql: str, params: Any) -> None:
        self.seen += 1
        if self.seen == self.nth:
            self.place = f"{when} statement {self.seen}, {described(sql, params)}"
            raise Killed


def described(sql: str, params: Any) -> str:
    words = " ".join(line for line in sql.split("\n") if not line.strip().startswith("--")).split()
    text = " ".join(words)[:60]
    name = params.get("name") if isinstance(params, Mapping) else None
    return f"step {name!r}" if name and writes_step(sql) else text


def writes_step(sql: str) -> bool:
    """PostgreSQL may keep the statement as a function of its name."""
    return STEP in sql or "dtr_remember" in sql


def check_idempotent(tasks: Tasks, expected: Expected, observe: Observe) -> IdempotencyReport:
    count, undisturbed, _ = attempt_all(tasks, expected, observe, Killer())
    report = IdempotencyReport(str(expected), undisturbed)
    if count > MOST_POINTS:
        raise AssertionError(f"{expected} makes {count} statements; {MOST_POINTS} are the most that are tried in turn.")
    for nth in range(1, count + 1):
        killer = Killer(nth)
        _, left, problem = attempt_all(tasks, expected, observe, killer)
        is_asked = problem == ASKED
        differs = "" if is_asked or (not problem and left == undisturbed) else problem or difference(undisturbed, left)
        report.crashes.append(Crash(killer.place or f"after statement {nth}", differs, is_asked))
    return report


def difference(undisturbed: Any, left: Any) -> str:
    if isinstance(undisturbed, dict) and isinstance(left, dict):
        names = sorted({*undisturbed, *left}, key=str)
        changed = [f"{n} {undisturbed.get(n)!r} → {left.get(n)!r}" for n in names if undisturbed.get(n) != left.get(n)]
        return ", ".join(changed)
    return f"{undisturbed!r} → {left!r}"


def attempt_all(tasks: Tasks, expected: Expected, observe: Observe, killer: Killer) -> tuple[int, Any, str]:
    """Enqueue the call and run all that it sets off, killed once; and then take it all back."""
    travelled = tasks.travelled
    with transaction.atomic(using=tasks.using):
        task = enqueue_urgently(expected, tasks.backend)
        run_killed(tasks, killer)
        task.refresh_from_db(using=tasks.using)
        left = observe()
        why = task.last_error["message"] if task.last_error else ""
        problem = "" if task.status == Status.SUCCESS else f"it ended as {task.status}: {why}"
        problem = ASKED if (task.waits_for or "").startswith(SIGNAL + ASKED) else problem
        transaction.set_rollback(True, using=tasks.using)
    tasks.travel_to(travelled)
    return killer.seen, left, problem


def run_killed(tasks: Tasks, killer: Killer) -> None:
    """Run until nothing waits. The lease of a killed worker runs out, and its task is recovered."""
    while True:
        leases = tasks.claim_due()
        if leases:
            if not run_or_die(leases[0], killer, tasks.using):
                lose_the_worker(tasks)
        elif not tasks.advance_to_next():
            return


def run_or_die(lease: Lease, killer: Killer, using: str) -> bool:
    def perform_killed(attempt: Attempt) -> Outcome:
        with connections[using].execute_wrapper(killer):
            outcome = perform(attempt)
        if isinstance(error := error_of(outcome), Killed):
            raise error
        return outcome

    with hooks_run_after(), suppress(Killed):
        run_and_record(Attempt(lease, monotonic()), perform_killed)
        return True
    return False
