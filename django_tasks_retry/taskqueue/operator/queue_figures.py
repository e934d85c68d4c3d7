"""Figures of queues: the one computation behind the console, the metrics and the health check."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ...models import Queue, Task, Worker
from ...rules.queues import serves
from .summaries import Depth

MOST_RUNNING = 10_000
OTHERS = "(other)"
"""The label of all queues, or functions, that metrics do not name. A queue of this very name is one of them."""


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """The state of one queue. `due` is counted up to CAP + 1 for each priority."""

    name: str
    due: int = 0
    oldest_seconds: float = 0.0
    running: int = 0
    pause: Queue | None = None
    """Its row, if an operator has paused it."""
    workers: int = 0
    slots: int = 0

    @property
    def is_paused(self) -> bool:
        return self.pause is not None


def queue_figures(
    names: Iterable[str],
    depths: Iterable[Depth],
    workers: Sequence[Worker],
    moment: datetime,
    *,
    paused: Mapping[str, Queue],
    running: Mapping[str, int] | None = None,
) -> list[QueueFigures]:
    """Return the figures of the named queues in this order. Asks no database."""
    due: dict[str, list[Depth]] = defaultdict(list)
    for depth in depths:
        if depth.due:
            due[depth.queue].append(depth)
    return [
        QueueFigures(
            name=name,
            due=sum(depth.due for depth in due[name]),
            oldest_seconds=oldest_seconds(due[name], moment),
            running=(running or {}).get(name, 0),
            pause=paused.get(name),
            workers=len(its_workers := serving(name, workers)),
            slots=sum(worker.slots for worker in its_workers),
        )
        for name in names
    ]


def name_largest(figures: Sequence[QueueFigures], most: int, always: Collection[str]) -> list[QueueFigures]:
    """Return the `always` named queues and the largest others by name, and the rest as one queue named OTHERS."""
    ranked = sorted(figures, key=lambda each: (each.name == OTHERS, each.name not in always, -each.due - each.running))
    named, rest = ranked[:most], ranked[most:]
    if named and named[-1].name == OTHERS:
        rest = [named.pop(), *rest]
    named.sort(key=lambda each: each.name)
    return [*named, summed(rest)] if rest else named


def summed(rest: Sequence[QueueFigures]) -> QueueFigures:
    """Return many queues as one, which looks as bad as the worst of them: the longest wait, the fewest workers.

    Paused queues count only if all are paused, so that they neither hide a late queue nor raise an alarm.
    """
    active = [each for each in rest if not each.is_paused] or rest
    with_work = [each for each in active if each.due] or active
    return QueueFigures(
        name=OTHERS,
        due=sum(each.due for each in rest),
        oldest_seconds=max(each.oldest_seconds for each in active),
        running=sum(each.running for each in rest),
        pause=active[0].pause,
        workers=min(each.workers for each in with_work),
        slots=min(each.slots for each in with_work),
    )


def serving(queue: str, workers: Sequence[Worker]) -> list[Worker]:
    """Return the workers that take tasks from this queue."""
    return [worker for worker in workers if serves(queue, worker.queues, worker.exclude)]


def oldest_seconds(due: Sequence[Depth], moment: datetime) -> float:
    """Never negative, though the clock was read before the tasks were."""
    oldest = min((depth.oldest_eta for depth in due), default=moment)
    return max(0.0, (moment - oldest).total_seconds())


def count_running(using: str) -> Counter[str]:
    """Count running tasks by queue, up to MOST_RUNNING in all."""
    # In the order of an index, and bounded: whatever the planner believes, it does not walk the table.
    leased = Task.objects.using(using).running().order_by("locked_by").values_list("queue", flat=True)
    return Counter(leased[:MOST_RUNNING])
