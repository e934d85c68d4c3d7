"""Summaries: how a queue stands, at a cost that does not grow with the number of stored tasks.

Every count is capped: beyond the cap, people see an estimate.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from ...clock import Now, now
from ...models import Queue, Task, TaskEvent, Worker
from ...rules.queues import serves
from ..database import as_moment
from ..engines import engine_for
from ..reading import read_rows
from .stats import RECENT

CAP = 1000
LOOK_BACK = 25_000  # the number of newest tasks that are scanned for a query that no index serves
MAX_PATHS = 20  # functions that are named for a queue at one priority
MOST_RUNNING = 10_000
OTHERS = "(other)"
"""The label of all queues, or functions, that metrics do not name. A queue of this very name is one of them."""


@dataclass(frozen=True, slots=True)
class Depth:
    """The due tasks of one queue at one priority."""

    queue: str
    priority: int
    oldest_eta: datetime
    func_paths: tuple[str, ...]  # the functions that the first of its due tasks call
    backend: str
    due: int


def depths(using: str, cap: int = CAP) -> list[Depth]:
    """Return each queue and priority with pending tasks: its oldest task and its due tasks, counted up to `cap` + 1."""
    parameters, current = {"cap": cap + 1, "paths": MAX_PATHS, **READABLE_TIMES}, now(using)
    found: dict[tuple[str, int], Depth] = {}
    rows = engine_for(using).rows
    for row in (*rows("depths", parameters), *rows("depths_keyed", parameters)):
        depth = Depth(
            row["queue"], row["priority"], readable_moment(row["eta"]) or current, read_paths(row["func_paths"]),
            row["backend"], row["due"],
        )  # fmt: skip
        key = depth.queue, depth.priority
        found[key] = joined(found[key], depth) if key in found else depth
    return sorted(found.values(), key=lambda depth: (depth.queue, -depth.priority))


def joined(one: Depth, other: Depth) -> Depth:
    """Add up tasks without a lane and with one, of the same queue and priority."""
    paths = sorted({*one.func_paths, *other.func_paths})[:MAX_PATHS]
    head = min(one, other, key=lambda depth: depth.oldest_eta)
    return replace(head, due=min(CAP + 1, one.due + other.due), func_paths=tuple(paths))


def read_paths(value: Any) -> tuple[str, ...]:
    """Read paths; PostgreSQL returns NULL for none, and each driver reads JSON in its own way."""
    return tuple(json.loads(value) if isinstance(value, str) else value or ())


READABLE_TIMES = {"first": "0001-01-02 00:00:00+00", "last": "9999-12-30 00:00:00+00"}
"""Times beyond these are no datetimes."""


def readable_moment(value: Any) -> datetime | None:
    """Return a time, or None if no datetime can hold it: such a task is shown and cancelled, not waited for."""
    try:
        return value and as_moment(value)
    except ValueError:
        return None


def ahead_of(task: Task, using: str) -> int:
    """Count, or estimate, due tasks that workers take first, of the same queue and lane."""
    before = Q(priority__gt=task.priority) | Q(priority=task.priority) & (
        Q(eta__lt=task.eta) | Q(eta=task.eta, pk__lt=task.pk)
    )
    due = Task.objects.using(using).due().filter(before, queue=task.queue, lane=task.lane)
    return count_or_estimate(due.filter(priority__gte=task.priority))


def count_stored(using: str) -> int:
    """Estimate the number of stored tasks from the database's statistics; count exactly if they are few."""
    few = len(Task.objects.using(using).order_by("pk").values_list("pk", flat=True)[: CAP + 1])
    return few if few <= CAP else max(few, engine_for(using).estimate_rows(Task._meta.db_table))


def newest_before(limit: int, using: str, below: UUID | None = None) -> UUID | None:
    """The id that lies `limit` tasks back from the newest, or from `below`; None if there are fewer."""
    tasks = Task.objects.using(using).order_by("-pk")
    if below is not None:
        tasks = tasks.filter(pk__lt=below)
    found = tasks.values_list("pk", flat=True)[limit : limit + 1]
    return found[0] if found else None


def id_after(limit: int, using: str, above: UUID | None = None) -> UUID | None:
    """The id that lies `limit` tasks on from `above`, or from the oldest; None if there are fewer."""
    tasks = Task.objects.using(using).order_by("pk")
    if above is not None:
        tasks = tasks.filter(pk__gt=above)
    found = tasks.values_list("pk", flat=True)[limit - 1 : limit]
    return found[0] if found else None


def count_or_estimate(tasks: QuerySet[Task]) -> int:
    """Count up to CAP; beyond it return an estimate, which is larger."""
    return count_and_first(tasks, "pk")[0]


def count_and_first(tasks: QuerySet[Task], column: str) -> tuple[int, Any]:
    """Count as above, and return the smallest value of the column among the tasks that were read."""
    found = list(tasks.values_list(column, flat=True)[: CAP + 1])
    count = len(found) if len(found) <= CAP else max(len(found), engine_for(tasks.db).estimate_count(tasks))
    return count, min(found, default=None)


def expired_leases(using: str) -> int:
    """Count, or estimate, running tasks whose worker was lost a while ago and that nobody has taken back."""
    lost = Task.objects.using(using).running().filter(lock_expires_at__lt=Now() - timedelta(seconds=60))
    return count_or_estimate(lost.order_by("locked_by"))


def newest_events(limit: int, using: str) -> tuple[list[TaskEvent], int]:
    """The newest events of all tasks, oldest first, and the number of the last that was looked for.

    Only ranges of numbers are asked for, which is what their index can answer; numbers that were drawn for events that
    were never committed leave gaps, so the range grows until there are enough.
    """
    last, width = engine_for(using).last_event_id(), max(limit, 1) * 2
    while True:
        events = TaskEvent.objects.using(using).filter(pk__gt=last - width).order_by("-pk")
        found = read_rows(events[:limit])
        if len(found) == limit or width >= last:
            return found[::-1], last
        width *= 8


# The figures of queues that console, metrics and health check show


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """The state of one queue. `due` is counted up to CAP + 1 for each priority."""

    name: str
    due: int = 0
    oldest_seconds: float = 0.0
    running: int = 0
    pause: Queue | None = None  # its row, if an operator has paused it
    workers: int = 0
    slots: int = 0
    attempts: int = 0
    failures: int = 0  # attempts that ended within RECENT, and those of them that failed
    full_at: int = 0  # the backlog limit, if it is reached

    @property
    def is_paused(self) -> bool:
        return self.pause is not None

    @property
    def is_failing(self) -> bool:
        return 0 < self.attempts <= self.failures * 2

    @property
    def per_minute(self) -> float:
        return self.attempts / (RECENT.total_seconds() / 60)

    @property
    def seconds_to_empty(self) -> float:
        """Return how long the due tasks last at the present rate if none is added; 0 if nobody can tell."""
        return self.due / self.per_minute * 60 if self.per_minute and not self.is_paused else 0.0


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
    return [worker for worker in workers if serves(queue, worker.queues, worker.exclude)]


def unknown_functions(waiting: Iterable[Depth], workers: Sequence[Worker]) -> dict[str, str]:
    """Return functions that due tasks call and no worker of their queue knows, each with a queue.

    Workers that know no task at all have a problem of their own, and are left out.
    """
    with_tasks = [worker for worker in workers if worker.tasks]
    return {
        path: depth.queue
        for depth in waiting
        for path in depth.func_paths
        if (servers := serving(depth.queue, with_tasks)) and not any(path in worker.tasks for worker in servers)
    }


def oldest_seconds(due: Sequence[Depth], moment: datetime) -> float:
    """Never negative, though the clock was read before the tasks were."""
    oldest = min((depth.oldest_eta for depth in due), default=moment)
    return max(0.0, (moment - oldest).total_seconds())


def running_by_queue(using: str) -> Counter[str]:
    """Count running tasks by queue, up to MOST_RUNNING in all."""
    # In the order of an index, and bounded: whatever the planner believes, it does not walk the table.
    leased = Task.objects.using(using).running().order_by("locked_by").values_list("queue", flat=True)
    return Counter(leased[:MOST_RUNNING])


def paused_queues(using: str) -> dict[str, Queue]:
    return {queue.name: queue for queue in read_rows(Queue.objects.using(using).paused())}
