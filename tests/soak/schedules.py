"""One schedule a second under fire: each slot has its task or is recorded as missed, and none has two (I13)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from tests.soak.database import tried

NAME = "every second"
CALL = -1
"""The number of its calls. A run by plan is known by its slot."""


@dataclass(frozen=True, slots=True)
class Slots:
    """Seconds of the queue's clock: from the first slot to the last one that was decided; runs; and what was missed."""

    first: int
    last: int
    runs: Sequence[int]
    missed: Sequence[tuple[int, int]]

    def complaints(self) -> list[str]:
        counted = Counter(self.runs)
        skipped = {slot for begin, end in self.missed for slot in range(begin, end + 1)}
        due = set(range(self.first, self.last + 1))
        return [
            *said("has two tasks", (slot for slot, count in counted.items() if count > 1)),
            *said("has a task and is recorded as missed", skipped & set(counted)),
            *said("has no task and is not recorded as missed", due - skipped - set(counted)),
            *said("was never due", (set(counted) | skipped) - due),
        ]

    def __str__(self) -> str:
        missed = sum(end - begin + 1 for begin, end in self.missed)
        return (
            f"one schedule a second: {self.last - self.first + 1:,} slots, {len(self.runs):,} tasks, {missed:,} missed"
        )


def said(what: str, slots: Iterable[int]) -> list[str]:
    return [f"I13 the slot {slot} {what}" for slot in sorted(slots)[:5]]


def number_of(slot: datetime) -> int:
    """What stands for the number of its call, which all of them share."""
    return -round(slot.timestamp())


class ScheduleCohort:
    def __init__(self) -> None:
        from django_tasks_retry.models import Schedule
        from tests.soak.tasks import canary

        self.first = Schedule.objects.create(name=NAME, task=canary, args=[CALL], every=1, overlap="allow").next_at

    def stop(self) -> None:
        from django_tasks_retry.taskqueue import pause

        while tried(lambda: pause(NAME, kind="schedule", by="soak") or True) is None:
            pass

    def slots(self) -> Slots:
        from django_tasks_retry.models import OperatorEvent, Schedule, Task

        def second(moment: datetime) -> int:
            return round(moment.timestamp())

        last = Schedule.objects.get(pk=NAME).last_at or self.first
        runs = Task.objects.filter(schedule=NAME, slot__isnull=False).values_list("slot", flat=True)
        events = OperatorEvent.objects.filter(subject=NAME, kind="schedule.missed").values_list("data", flat=True)
        missed = [tuple(second(datetime.fromisoformat(data[key])) for key in ("first", "last")) for data in events]
        return Slots(second(self.first), second(last), [second(slot) for slot in runs], missed)
