"""Two-level workflows under fire: every parent goes on, no member is lost, an atomic step is done once (I14)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from django_tasks_retry import call, retry
from django_tasks_retry.compat import task
from tests.soak.cohorts import BUDGET, note
from tests.soak.database import tried

BRANCHES, LEAVES = 5, 4
MEMBERS = BRANCHES * (LEAVES + 1)
WIDTHS = {"flow": BRANCHES, "branch": LEAVES}
"""How many members each gathers."""
KILLED = "CRASHED"
"""The code of what the nemesis has killed again and again, in the end alone in its process."""
AT_ONCE = 5
MOST_WAITING = 120
"""Tasks that wait for a batch: more of them would only stand in line."""


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
    context.step("mark", leave_mark, str(context.lease.id), atomic=True)
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


PATHS = [f"{__name__}.{each.func.__name__}" for each in (leaf, branch, flow)]


@dataclass(frozen=True, slots=True)
class Parent:
    """One task that gathers, as it ended: what it returned, and how often its atomic step was done."""

    task: UUID
    name: str
    status: str
    result: Any
    marks: int
    wakes: int = 1
    """How often it was told that what it waited for has come."""
    waits: int = 1
    """How often it began to wait."""
    code: str | None = None
    """Of the error that it ended with."""

    def complaints(self, members: int) -> Iterator[str]:
        """`members` that are stored, without their retries."""
        width = WIDTHS[self.name]
        if self.status not in ("SUCCESS", "CANCELLED") and self.code != KILLED:
            yield f"ended as {self.status} {self.code or ''}"
        if self.status == "SUCCESS" and (self.result, members) != (width, width):
            yield f"saw {self.result} of {members} members"
        if members not in (0, width):
            yield f"has {members} members"
        if self.marks > 1 or (self.status == "SUCCESS" and self.marks != 1):
            yield f"did its atomic step {self.marks} times"
        if self.wakes > self.waits:
            yield f"waited {self.waits} times and was woken {self.wakes} times"


def complaints(
    parents: Sequence[Parent], members: Mapping[UUID | None, int], acknowledged: Collection[UUID] = ()
) -> list[str]:
    """`members` counts those of each parent; `acknowledged` are the workflows that were enqueued for sure."""
    lost = set(acknowledged) - {each.task for each in parents}
    found = [f"I14 the workflow {pk} was acknowledged and is not there" for pk in sorted(lost)]
    for each in parents:
        found += [f"I14 the {each.name} {each.task} {text}" for text in each.complaints(members.get(each.task, 0))]
    return found


class WorkflowCohort:
    def __init__(self, wanted: int) -> None:
        self.wanted, self.asked = wanted, 0
        self.acknowledged: set[UUID] = set()

    @property
    def is_done(self) -> bool:
        return self.asked >= self.wanted

    def turn(self) -> None:
        """A few at a time, while others are at work, and no more than workers can take on."""
        waiting = tried(self.waiting)
        if waiting is not None and waiting < MOST_WAITING:
            self.ask()

    def ask(self) -> None:
        """Each once: where no answer came, it may be there or not."""
        from django_tasks_retry.models import Task

        for number in range(self.asked, min(self.asked + AT_ONCE, self.wanted)):
            self.asked = number + 1
            row = tried(lambda number=number: Task.objects.enqueue(flow, [f"flow {number}"]))
            if row is None:
                return
            self.acknowledged.add(row.pk)

    def tasks(self, *names: str) -> Any:
        from django_tasks_retry.models import Task

        return Task.objects.filter(func_path__in=[f"{__name__}.{name}" for name in names])

    def waiting(self) -> int:
        from django_tasks_retry.models import Task

        return int(Task.objects.suspended().count())

    def numbers(self) -> set[Any]:
        """What stands for the numbers of their calls; a retry of a workflow makes members of its own."""
        return {args[0] for args in self.tasks("flow", "branch", "leaf").values_list("args", flat=True)}

    def parents(self) -> list[Parent]:
        from django.contrib.auth.models import Group

        marks = Counter(name.partition(" ")[0] for name in Group.objects.values_list("name", flat=True))
        waits, wakes = self.counted("task.released", waits_for=True), self.counted("task.rescheduled")
        columns = ("pk", "func_path", "status", "outcome__result", "last_error")
        return [
            Parent(
                pk, path.rpartition(".")[2], status, result, marks[str(pk)], wakes[pk], waits[pk],
                error and error["code"],
            )
            for pk, path, status, result, error in self.tasks(*WIDTHS).values_list(*columns)
        ]  # fmt: skip

    def counted(self, kind: str, *, waits_for: bool = False) -> Counter[UUID]:
        from django_tasks_retry.models import TaskEvent

        events = TaskEvent.objects.filter(kind=kind, task_id__in=self.tasks(*WIDTHS).values("pk"))
        rows = events.values_list("task_id", "data")
        return Counter(pk for pk, data in rows.iterator(5000) if not waits_for or "waits_for" in data)

    def complaints(self) -> list[str]:
        originals = self.tasks("branch", "leaf").filter(retry_of=None).values_list("parent_id", flat=True)
        left = self.waiting()
        stuck = [f"I14 {left} tasks still wait"] if left else []
        return stuck + complaints(self.parents(), Counter(originals), self.acknowledged)

    def __str__(self) -> str:
        ends = Counter(each.status for each in self.parents() if each.name == "flow")
        words = ", ".join(f"{count:,} {status}" for status, count in sorted(ends.items()))
        members = self.tasks("branch", "leaf").count()
        return f"workflows of {MEMBERS} members: {words or 'none'}; {members:,} members in all"
