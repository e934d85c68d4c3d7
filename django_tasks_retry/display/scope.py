"""The scope of the console: a backend, its database, the time there, and how its queues and workers stand."""

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.utils.translation import gettext as _

from ..clock import now
from ..compat import DEFAULT_TASK_BACKEND_ALIAS
from ..conf import configured_backends, queues
from ..models import Queue, Task, Worker
from ..taskqueue import alive_workers, database, engine_for, sound_workers, statistics
from ..taskqueue.database import source
from ..taskqueue.enqueue import full_queues

MOST_WORKERS = 1000


@dataclass(frozen=True, slots=True)
class Scope:
    """The backend whose tasks are shown, its database, and one reading of its clock."""

    backend: str
    using: str
    now: datetime


@dataclass(frozen=True, slots=True)
class Standing:
    """How everything stands: the same figures for the console, the shell and the check."""

    scope: Scope
    workers: list[Worker]
    waiting: list[statistics.Depth]
    queues: list[statistics.QueueFigures]

    @property
    def oldest_seconds(self) -> float:
        return max((queue.oldest_seconds for queue in self.queues), default=0.0)

    @property
    def due(self) -> int:
        return sum(queue.due for queue in self.queues)


shown_shard: ContextVar[str] = ContextVar("shown_shard", default="")
"""The backend of the shard that a page of the console shows; empty if there is only one database."""


def console_backend() -> str:
    """Return the shard that is shown; else the default backend if it is ours, else the first that is."""
    if shown_shard.get():
        return shown_shard.get()
    ours = configured_backends()
    if DEFAULT_TASK_BACKEND_ALIAS in ours or not ours:
        return DEFAULT_TASK_BACKEND_ALIAS
    return ours[0]


def console_database() -> str:
    return database(console_backend())


def note_of_replica() -> str:
    """Return what a page says of the replica from which it is read."""
    match source.get():
        case "replica":
            lag = statistics.replica_lag(console_backend())
            behind = _("%(seconds)s s behind") % {"seconds": f"{lag:.1f}"} if lag is not None else _("age unknown")
            return _("Read from a replica (%(behind)s). Actions and pages of tasks use the primary.") % {
                "behind": behind
            }
        case "primary":
            return _("The replica does not answer, so this was read from the primary.")
    return ""


def current_scope() -> Scope:
    backend = console_backend()
    using = database(backend)
    return Scope(backend, using, now(using))


def queue_names(scope: Scope, waiting: Sequence[statistics.Depth] | None = None) -> list[str]:
    """Queues of the settings, those that were paused once, and those with tasks that wait or that ran within a day."""
    stored = Queue.objects.using(scope.using).values_list("name", flat=True)[:500]
    busy = statistics.sums_since(scope.now - timedelta(days=1), scope.using, "queue")
    waiting = statistics.depths(scope.using, cap=0) if waiting is None else waiting
    return sorted({*queues(scope.backend), *stored, *(row["queue"] for row in busy), *(each.queue for each in waiting)})


def estimated_due(queue: statistics.QueueFigures, using: str) -> int:
    if queue.due <= statistics.CAP:
        return queue.due
    due = Task.objects.using(using).due().filter(queue=queue.name)
    return max(queue.due, engine_for(using).estimate_count(due))


def read_workers(scope: Scope) -> list[Worker]:
    return sound_workers(alive_workers(scope.backend).order_by("id")[:MOST_WORKERS])


def read_standing(scope: Scope) -> Standing:
    workers, waiting = read_workers(scope), statistics.depths(scope.using)
    recent = {each.queue: each for each in statistics.counts_since(scope.now - statistics.RECENT, scope.using, "queue")}
    found = statistics.read_queues(scope.backend, scope.using, workers, queue_names(scope, waiting), waiting)
    full = full_queues([each.name for each in found], scope.backend, scope.using)
    queues = [
        replace(
            each,
            due=estimated_due(each, scope.using),
            attempts=counts.attempts,
            failures=counts.failures,
            full_at=full.get(each.name, 0),
        )
        for each in found
        for counts in [recent.get(each.name, statistics.Counts())]
    ]
    return Standing(scope, workers, waiting, queues)
