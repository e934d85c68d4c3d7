"""Kill a task, and all that it sets off, after each of its statements in turn; recover it; tell what happened twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any

from django.db import connections, transaction

from ..models import Step
from ..rules.status import Status
from ..taskqueue import Lease, Outcome
from ..worker.child.attempt import Attempt
from ..worker.child.pipeline import error_of, run_and_record
from .calls import Expected
from .crash import Killed, Observe, enqueue_urgently, everyday_effects, lose_the_worker
from .inline import hooks_run_after, perform

if TYPE_CHECKING:
    from .harness import Tasks

MOST_POINTS = 500
STEP = Step._meta.db_table


@dataclass(frozen=True)
class Crash:
    """One place to be killed at, and what came of it."""

    place: str
    differs: str = ""

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
        if self.idempotent:
            return f"{head}\n  It came to the same each time."
        return "\n".join([head, *map(str, self.harmful)])


class Killer:
    """Counts the statements of the tasks' own attempts, and dies after one of them."""

    def __init__(self, nth: int = 0) -> None:
        self.nth, self.seen, self.place = nth, 0, ""

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:  # noqa: FBT001 - as Django calls it
        answer = execute(sql, params, many, context)
        if not sql.startswith(("SAVEPOINT", "RELEASE", "ROLLBACK")):
            self.seen += 1
            if self.seen == self.nth:
                self.place = f"after statement {self.seen}, {described(sql, params)}"
                raise Killed
        return answer

    @contextmanager
    def at_work(self, using: str) -> Iterator[None]:
        with connections[using].execute_wrapper(self):
            yield


def described(sql: str, params: Any) -> str:
    words = " ".join(line for line in sql.split("\n") if not line.strip().startswith("--")).split()
    text = " ".join(words)[:60]
    name = params.get("name") if isinstance(params, Mapping) else None
    return f"step {name!r}" if name and STEP in sql else text


def check_idempotent(tasks: Tasks, expected: Expected, observe: Observe | None) -> IdempotencyReport:
    observe = observe or (lambda: everyday_effects(tasks.using))
    count, undisturbed, _ = attempt_all(tasks, expected, observe, Killer())
    report = IdempotencyReport(str(expected), undisturbed)
    if count > MOST_POINTS:
        raise AssertionError(f"{expected} makes {count} statements; {MOST_POINTS} are the most that are tried in turn.")
    for nth in range(1, count + 1):
        killer = Killer(nth)
        _, left, problem = attempt_all(tasks, expected, observe, killer)
        differs = problem or ("" if left == undisturbed else difference(undisturbed, left))
        report.crashes.append(Crash(killer.place or f"after statement {nth}", differs))
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
        problem = "" if task.status == Status.SUCCESS else f"it ended as {task.status}: {message_of(task.last_error)}"
        transaction.set_rollback(True, using=tasks.using)
    tasks.travel_to(travelled)
    return killer.seen, left, problem


def message_of(error: Any) -> str:
    return error["message"] if error else ""


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
        with killer.at_work(using):
            outcome = perform(attempt)
        if isinstance(error := error_of(outcome), Killed):
            raise error
        return outcome

    with hooks_run_after(), suppress(Killed):
        run_and_record(Attempt(lease, monotonic()), perform_killed)
        return True
    return False
