"""Two-level workflows under fire: every parent goes on, no member is lost, an atomic step is done once (I14)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from django_tasks_retry import call, retry
from django_tasks_retry.compat import task
from tests.soak.cohorts import BUDGET, note
from tests.soak.database import tried

BRANCHES, LEAVES = 5, 4
MEMBERS = BRANCHES * (LEAVES + 1)


def leave_mark(name: str) -> None:
    """An effect in the tasks' own database, which can be counted."""
    from django.contrib.auth.models import Group

    Group.objects.create(name=f"{name} {uuid4()}")


@task
@retry(max_attempts=BUDGET)
def leaf(number: str) -> int:
    note("start")
    note("end")
    return 1


@task(takes_context=True)
@retry(max_attempts=BUDGET)
def branch(context: Any, number: str) -> int:
    note("start")
    leaves = [call(leaf, f"{context.lease.id}/{n}") for n in range(LEAVES)]
    found = sum(1 for _ in context.gather("leaves", leaves, errors="return"))
    note("end")
    return found


@task(takes_context=True)
@retry(max_attempts=BUDGET)
def flow(context: Any, number: str) -> int:
    """The number of its branches. Whatever people cancel of it counts as ended."""
    note("start")
    context.step("mark", leave_mark, str(context.lease.id), atomic=True)
    branches = [call(branch, f"{context.lease.id}/{n}") for n in range(BRANCHES)]
    found = sum(1 for _ in context.gather("branches", branches, errors="return"))
    note("end")
    return found


@dataclass(frozen=True, slots=True)
class Flow:
    """One workflow as it ended: its status, what it returned, and how often its atomic step was done."""

    task: UUID
    status: str
    result: Any
    marks: int


def complaints(flows: Sequence[Flow], members: Mapping[UUID, int]) -> list[str]:
    """`members` counts the branches of each."""
    found = []
    for each in flows:
        if each.status not in ("SUCCESS", "CANCELLED"):
            found.append(f"I14 the workflow {each.task} ended as {each.status}")
        if each.status == "SUCCESS" and (each.result, members.get(each.task)) != (BRANCHES, BRANCHES):
            found.append(f"I14 the workflow {each.task} saw {each.result} of {members.get(each.task)} members")
        if each.marks > 1 or (each.status == "SUCCESS" and each.marks != 1):
            found.append(f"I14 the atomic step of {each.task} was done {each.marks} times")
    return found


class WorkflowCohort:
    def __init__(self, wanted: int) -> None:
        self.wanted, self.asked = wanted, 0

    @property
    def is_done(self) -> bool:
        return self.asked >= self.wanted

    def turn(self) -> None:
        """A few at a time, while others are at work."""
        from django_tasks_retry.models import Task

        for _ in range(min(5, self.wanted - self.asked)):
            if tried(lambda: Task.objects.enqueue(flow, [f"flow {self.asked}"])) is None:
                return
            self.asked += 1

    def numbers(self) -> set[Any]:
        """What stands for the numbers of their calls; a retry of a workflow makes members of its own."""
        from django_tasks_retry.models import Task

        paths = [f"{__name__}.{name}" for name in ("flow", "branch", "leaf")]
        return {args[0] for args in Task.objects.filter(func_path__in=paths).values_list("args", flat=True)}

    def flows(self) -> list[Flow]:
        from django.contrib.auth.models import Group

        from django_tasks_retry.models import Task

        marks = Counter(name.partition(" ")[0] for name in Group.objects.values_list("name", flat=True))
        rows = Task.objects.filter(func_path=f"{__name__}.flow").values_list("pk", "status", "outcome__result")
        return [Flow(pk, status, result, marks[str(pk)]) for pk, status, result in rows]

    def complaints(self) -> list[str]:
        from django_tasks_retry.models import Task

        originals = Task.objects.filter(func_path=f"{__name__}.branch", retry_of=None).values_list(
            "parent_id", flat=True
        )
        left = Task.objects.filter(status="PENDING", waits_for__isnull=False).count()
        stuck = [f"I14 {left} tasks still wait"] if left else []
        return stuck + complaints(self.flows(), Counter(originals))

    def __str__(self) -> str:
        ends = Counter(each.status for each in self.flows())
        words = ", ".join(f"{count:,} {status}" for status, count in sorted(ends.items()))
        return f"workflows of {MEMBERS} members: {words or 'none'}"
