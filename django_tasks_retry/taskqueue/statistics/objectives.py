"""Objectives: within which time the attempts of a function or queue should start, and what is left of their budget."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from typing import Any
from uuid import UUID

from django.db.models import F, Q

from ... import registry
from ...clock import Now, now
from ...conf import options
from ...models import KEYED, Task, TaskStat
from ...rules.names import first_of, path_of
from ...rules.policy import policy_of
from ..database import database
from ..reading import read_rows, read_values
from .stats import BOUNDS, WAITED, sums_since
from .summaries import CAP, Depth, depths, newest_before

WINDOWS = {"5m": timedelta(minutes=5), "1h": timedelta(hours=1), "6h": timedelta(hours=6), "7d": timedelta(days=7)}
FAST = 14.4  # the burn rate that spends two percent of a month's budget within an hour

FEWEST_LATE = 5
MOST_HOURS, MOST_LATE, LOOK_BACK = 12, 25, 10_000
"""The worst hours, the late tasks read of each, and the tasks among which these are looked for."""

COLUMNS = {"queue": "queue", "function": "func_path"}


@dataclass(frozen=True, slots=True)
class Objective:
    kind: str
    name: str
    seconds: float

    @property
    def label(self) -> str:
        return f"{self.kind}:{self.name}"

    @property
    def chosen(self) -> dict[str, str]:
        """Return the column of tasks and statistics that it is about, and its value."""
        return {COLUMNS[self.kind]: self.name}


@dataclass(frozen=True, slots=True)
class Budget:
    """The attempts of an objective by window: how many there were, and how many of them started late."""

    objective: Objective
    share: float
    attempts: Mapping[str, float] = field(default_factory=dict)
    late: Mapping[str, float] = field(default_factory=dict)
    waiting: int = 0  # Tasks that are late and have not started. They count as attempts of each window.

    def in_time(self, window: str) -> float | None:
        return 1 - self.late[window] / self.attempts[window] if self.attempts.get(window) else None

    def burn(self, window: str) -> float:
        """Return how many times as many as the objective allows were late: at 1, the budget is used up exactly."""
        in_time = self.in_time(window)
        return 0.0 if in_time is None else (1 - in_time) / (1 - self.share)

    @property
    def left(self) -> float:
        """Return the share of the week's budget that is left; negative if it was overspent."""
        return 1 - self.burn("7d")

    @property
    def is_burning(self) -> bool:
        return min(self.burn("5m"), self.burn("1h")) >= FAST and self.late["1h"] >= FEWEST_LATE


def objectives(backend: str) -> list[Objective]:
    """Return those of the settings, and of the functions that this process knows."""
    chosen = options(backend)
    functions = {path_of(task.func): policy_of(task.func) for task in registry.registered() if task.backend == backend}
    return [
        *(Objective("queue", name, chosen.objective_of(name)) for name in sorted(chosen.objectives)),
        *(Objective("function", path, each.objective) for path, each in sorted(functions.items()) if each.objective),
    ]


def read_budgets(
    backend: str, windows: Sequence[str] = tuple(WINDOWS), waiting: Sequence[Depth] | None = None
) -> list[Budget]:
    """Sum up the minutes of these windows, once for queues and once for functions, and add the tasks that are late."""
    wanted, using = objectives(backend), database(backend)
    if not wanted:
        return []
    overdue = count_overdue(wanted, depths(using) if waiting is None else waiting, using)
    histograms = {(kind, window): read_waits(kind, window, wanted, using) for kind in COLUMNS for window in windows}
    found = []
    for each in wanted:
        late, attempts = dict[str, float](), dict[str, float]()
        for window in windows:
            waited = histograms[each.kind, window].get(each.name, [0] * len(WAITED))
            attempts[window] = sum(waited) + overdue[each]
            late[window] = sum(waited) - count_within(each.seconds, waited) + overdue[each]
        found.append(Budget(each, options(backend).objective_share, attempts, late, overdue[each]))
    return found


def read_waits(kind: str, window: str, wanted: Sequence[Objective], using: str) -> dict[str, list[int]]:
    """Return by name how many attempts waited for how long, in the buckets of the workers' histograms."""
    names = [each.name for each in wanted if each.kind == kind]
    if not names:
        return {}
    column = COLUMNS[kind]
    chosen: Any = {f"{column}__in": names}
    rows = sums_since(now(using) - WINDOWS[window], using, column, columns=WAITED, **chosen)
    return {row[column]: [row[name] for name in WAITED] for row in rows}


def count_within(seconds: float, waited: Sequence[int]) -> float:
    """Count exactly if the objective is a bound of the buckets; else estimate, as if waits were even within its own."""
    within, lower = 0.0, 0.0
    for count, bound in zip(waited, BOUNDS, strict=False):
        if seconds < bound:
            return within + count * (seconds - lower) / (bound - lower)
        within, lower = within + count, bound
    return within + (waited[-1] if seconds > lower else 0)


def count_overdue(wanted: Sequence[Objective], waiting: Sequence[Depth], using: str) -> Counter[Objective]:
    """Count due tasks that have waited for longer: the oldest of each queue and priority, range by range."""
    found: Counter[Objective] = Counter()
    moment, shortest = now(using), timedelta(seconds=min(each.seconds for each in wanted))
    due = Task.objects.using(using).due().filter(eta__lte=moment - shortest).order_by("eta")
    for each in (each for each in waiting if each.due):
        of_range = due.filter(queue=each.queue, priority=each.priority)
        for some in (of_range.filter(lane=""), of_range.filter(KEYED)):
            for queue, func_path, eta in read_values(some[:CAP], "queue", "func_path", "eta"):
                waits = (moment - eta).total_seconds()
                names = {"queue": queue, "function": func_path}
                found.update(one for one in wanted if names[one.kind] == one.name and waits > one.seconds)
    return found


def late_hours(objective: Objective, using: str) -> list[tuple[datetime, float]]:
    """Return the hours of the week in which the most attempts ended that had started late, with their number."""
    first = next((n for n, bound in enumerate(BOUNDS) if objective.seconds < bound), len(BOUNDS))
    is_late = reduce(or_, (Q(**{f"{name}__gt": 0}) for name in WAITED[first:]))
    stats = TaskStat.objects.using(using).filter(minute__gte=now(using) - WINDOWS["7d"], minute__lte=Now())
    counts: dict[datetime, float] = defaultdict(float)
    for minute, *waited in stats.filter(is_late, **objective.chosen).values_list("minute", *WAITED):
        counts[minute.replace(minute=0)] += sum(waited) - count_within(objective.seconds, waited)
    return sorted(counts.items(), key=lambda each: -each[1])[:MOST_HOURS]


def late_tasks(objective: Objective, hour: datetime, using: str) -> list[Task]:
    """Return some tasks whose last attempt started late in that hour, of those enqueued last before its end."""
    end = hour + timedelta(hours=1)
    below = first_of(int(end.timestamp() * 1000))
    late = Task.objects.using(using).filter(pk__lt=below, pk__gte=newest_before(LOOK_BACK, using, below) or UUID(int=0))
    late = late.filter(last_attempt_at__gt=F("eta") + timedelta(seconds=objective.seconds), **objective.chosen)
    begun = late.filter(last_attempt_at__gte=hour, last_attempt_at__lt=end).order_by("-pk")
    return read_rows(begun.defer("args", "kwargs", "metadata", "last_error")[:MOST_LATE])
