"""Split the waits of attempts that started later than their objective by the causes of *why late*."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import NamedTuple

from ..display.formatting import format_duration, format_number, format_percentage, one_line
from ..display.scope import Scope
from ..taskqueue.statistics import Budget, Objective, late_hours, late_tasks
from .late import cause_text, split_waits

ASKED_FOR = {"not_due", "backoff", "asked"}  # causes that come before a task is due


class Eater(NamedTuple):
    cause: str
    subject: str  # the largest: a lane, a worker, a queue and who paused it
    share: float

    def __str__(self) -> str:
        return f"{format_percentage(self.share, 1):>6}  {cause_text(self.cause, self.subject)}"


def what_ate(objective: Objective, scope: Scope) -> list[Eater]:
    """Split the waits of some tasks of the worst hours, each hour counted by its late attempts; the largest first."""
    shares: Counter[str] = Counter()
    subjects: dict[str, Counter[str]] = defaultdict(Counter)
    for hour, late_count in late_hours(objective, scope.using):
        waits = split_waits(late_tasks(objective, hour, scope.using), scope)
        parts = [part for late in waits for part in late.parts if part.cause not in ASKED_FOR]
        whole = sum(part.time.total_seconds() for part in parts)
        for part in parts:
            weight = late_count * part.time.total_seconds() / whole
            shares[part.cause] += weight  # type: ignore[assignment]
            subjects[part.cause][part.subject] += weight  # type: ignore[assignment]
    total = sum(shares.values())
    return [
        Eater(cause, subjects[cause].most_common(1)[0][0], weight / total) for cause, weight in shares.most_common()
    ]


def figures_of(budget: Budget) -> dict[str, str]:
    """Return the figures of a budget as people read them."""
    in_time = budget.in_time("7d")
    return {
        "objective": one_line(budget.objective.label, 200),
        "within": format_duration(budget.objective.seconds),
        "attempts": format_number(round(budget.attempts["7d"])),
        "in_time": "" if in_time is None else f"{in_time:.2%}",
        "budget": f"{budget.left:.0%}",
        "burn": f"{budget.burn('1h'):.1f}",
        "waiting": format_number(budget.waiting),
    }
