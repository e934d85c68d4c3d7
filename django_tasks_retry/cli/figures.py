"""How queues, functions and workers stand, as numbers: at a cost that does not grow with what is stored."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Sum

from ..display.eligible_workers import serves_queue
from ..display.scope import Scope, queue_names
from ..models import Queue, Task, TaskStat, Worker
from ..taskqueue import alive_workers
from ..taskqueue.operator import summaries
from ..taskqueue.operator.summaries import Depth

RECENT = timedelta(minutes=10)
MAX_WORKERS = 1000
COUNTS = ("completed", "retried", "failed")


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """`due` counts to CAP + 1; rates are those of the last ten minutes."""

    name: str
    paused_at: datetime | None
    paused_by: str
    reason: str
    due: int
    oldest_wait: float
    running: int
    workers: int
    attempts: int
    failures: int

    @property
    def per_minute(self) -> float:
        return self.attempts / (RECENT.total_seconds() / 60)

    @property
    def failing(self) -> float | None:
        """The share of attempts that failed; None where there were none."""
        return self.failures / self.attempts if self.attempts else None


def read_workers(scope: Scope) -> list[Worker]:
    return list(alive_workers(scope.backend).order_by("id")[:MAX_WORKERS])


def read_queues(scope: Scope, workers: Sequence[Worker]) -> list[QueueFigures]:
    depths: dict[str, list[Depth]] = defaultdict(list)
    for depth in summaries.depths(scope.using):
        depths[depth.queue].append(depth)
    paused = {queue.name: queue for queue in Queue.objects.using(scope.using).paused()}
    running = count_running(scope.using)
    recent = {row["queue"]: row for row in attempts_by(scope, RECENT, "queue")}
    names = queue_names({*depths, *running, *recent})
    return [
        figures_of(name, depths[name], paused.get(name), running[name], recent.get(name, {}), scope.now, workers)
        for name in names
    ]


def figures_of(
    name: str,
    depths: Sequence[Depth],
    paused: Queue | None,
    running: int,
    recent: dict[str, Any],
    now: datetime,
    workers: Sequence[Worker],
) -> QueueFigures:
    oldest = min((depth.oldest_eta for depth in depths if depth.due), default=now)
    return QueueFigures(
        name=name,
        paused_at=paused.paused_at if paused else None,
        paused_by=paused.paused_by if paused else "",
        reason=paused.reason if paused else "",
        due=sum(depth.due for depth in depths),
        oldest_wait=max(0.0, (now - oldest).total_seconds()),
        running=running,
        workers=sum(serves_queue(worker, name) for worker in workers),
        attempts=sum(recent.get(each, 0) for each in COUNTS),
        failures=recent.get("retried", 0) + recent.get("failed", 0),
    )


def count_running(using: str) -> Counter[str]:
    """By queue. There are no more than workers have slots."""
    rows = Task.objects.using(using).running().order_by("queue").values("queue").annotate(count=Count("pk"))
    return Counter({row["queue"]: row["count"] for row in rows})


def attempts_by(scope: Scope, span: timedelta, *keys: str) -> Iterable[dict[str, Any]]:
    """Attempts that ended within the span, from the workers' statistics."""
    stats = TaskStat.objects.using(scope.using).filter(minute__gte=scope.now - span)
    sums = {name: Sum(name) for name in (*COUNTS, "seconds")}
    found: Iterable[dict[str, Any]] = stats.order_by(*keys).values(*keys).annotate(**sums)
    return found
