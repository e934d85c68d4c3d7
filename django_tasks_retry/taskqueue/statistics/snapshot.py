"""A snapshot: the figures behind the metrics, at a cost that does not grow with the number of stored tasks.

Pages and metrics read from the replica that OPTIONS["CONSOLE_DATABASE"] names, or from the primary.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from django.db.models import Case, F, Q, Sum, Value, When
from django.db.utils import InterfaceError, OperationalError

from ...clock import Now, now
from ...conf import options
from ...conf import queues as configured_queues
from ...models import Schedule, Task, TaskTotal, Worker
from ..database import database, source
from ..engines import engine_for
from ..timeouts import is_timeout, statement_timeout
from ..workers import alive_workers, sound_workers
from .objectives import Budget, read_budgets
from .stats import ADDED, COUNTS, RAN, WAITED, Stat
from .summaries import (
    CAP,
    OTHERS,
    Depth,
    QueueFigures,
    depths,
    expired_leases,
    name_largest,
    paused_queues,
    queue_figures,
    running_by_queue,
)

T = TypeVar("T")
MOST_NAMED = 400
"""Queues that metrics name, and pairs of queue and function: with these a scrape has at most 22,500 lines."""

STATEMENT_SECONDS = 3.0
SNAPSHOT_SECONDS = 6.0  # All statements together: Prometheus waits for ten seconds. 20,000 queues take one to two.
BURN_WINDOWS = ("5m", "1h", "6h")
LATE = timedelta(seconds=60)
LITERALS = re.compile(r"'(?:[^'\\]|''|\\.)*(?:'|$)|\$(\w*)\$.*?(?:\$\1\$|$)|\b\d+(?:\.\d+)?\b", re.DOTALL)
LONGEST_QUERY = 120


@dataclass(frozen=True, slots=True)
class Holder:
    """A transaction that holds back the horizon: while it lasts, rows that are dead must be kept, and read past."""

    pid: str
    seconds: float
    application: str
    state: str
    query: str  # the statement without its literals


@dataclass(frozen=True, slots=True)
class Snapshot:
    queues: tuple[QueueFigures, ...] = ()
    totals: tuple[Stat, ...] = ()
    workers: int = 0
    slots: int = 0
    retrying: int = 0
    expired: int = 0
    holder: Holder | None = None
    budgets: tuple[Budget, ...] = ()
    late_schedules: int | None = None  # None if there are no schedules
    replica_lag: float | None = None  # None if the primary was asked, or it is not known
    unanswered: frozenset[str] = frozenset()  # fields above that the database did not answer in time


def take_snapshot(backend: str = "default") -> Snapshot:
    """Read what the backend's database says about its queues. Counts are capped, as in the console."""
    primary = database(backend)
    return from_replica(backend, lambda: read_snapshot(backend, database(backend), primary))


def read_snapshot(backend: str, using: str, primary: str) -> Snapshot:
    with statement_timeout(using, STATEMENT_SECONDS):
        workers = sound_workers(alive_workers(backend).only("queues", "exclude", "slots"))
    questions: dict[str, Callable[[], Any]] = {
        "retrying": lambda: len(Task.objects.using(using).retrying().order_by("pk").values_list("pk")[: CAP + 1]),
        "expired": lambda: expired_leases(using),
        "holder": lambda: holder_of(primary),
        "replica_lag": lambda: replica_lag(backend) if using != primary else None,
        "late_schedules": lambda: count_late_schedules(backend, using),
        "totals": lambda: read_totals(using),
        "budgets": lambda: tuple(read_budgets(backend, BURN_WINDOWS)),
        "queues": lambda: read_largest_queues(backend, using, workers),
    }
    answers = ask_in_time(questions, using)
    return Snapshot(
        **answers,
        workers=len(workers),
        slots=sum(worker.slots for worker in workers),
        unanswered=frozenset(questions.keys() - answers.keys()),
    )


def ask_in_time(questions: Mapping[str, Callable[[], Any]], using: str) -> dict[str, Any]:
    """Return the answers that the database gives in time, by the names of the questions."""
    ends = time.monotonic() + SNAPSHOT_SECONDS
    answers = {}
    for name, question in questions.items():
        try:
            with statement_timeout(using, STATEMENT_SECONDS, ends - time.monotonic()):
                answers[name] = question()
        except OperationalError as error:
            if not is_timeout(error):
                raise
    return answers


def count_late_schedules(backend: str, using: str) -> int | None:
    """Return None if there are no schedules."""
    if not Schedule.objects.using(using).filter(backend=backend).exists():
        return None
    return int(late_schedules(backend, using).count())


def late_schedules(backend: str, using: str) -> Any:
    """Schedules whose slot came a while ago and was neither enqueued nor given up."""
    active = Schedule.objects.using(using).active().filter(backend=backend, next_at__lt=Now() - LATE)
    return active.free()


def read_largest_queues(backend: str, using: str, workers: Sequence[Worker]) -> tuple[QueueFigures, ...]:
    counted = TaskTotal.objects.using(using).order_by("id").values_list("queue", flat=True)[:MOST_NAMED]
    return tuple(name_largest(read_queues(backend, using, workers, counted), MOST_NAMED, configured_queues(backend)))


def read_queues(
    backend: str, using: str, workers: Sequence[Worker], seen: Iterable[str], waiting: Sequence[Depth] | None = None
) -> list[QueueFigures]:
    """Return the queues of the settings, those with pending or running tasks, paused ones, and those `seen`."""
    waiting, moment = depths(using) if waiting is None else waiting, now(using)
    paused, running = paused_queues(using), running_by_queue(using)
    names = {*configured_queues(backend), *(depth.queue for depth in waiting), *running, *paused, *seen}
    return queue_figures(sorted(names), waiting, workers, moment, paused=paused, running=running)


def read_totals(using: str) -> tuple[Stat, ...]:
    """Return the totals that were counted first, and the sums of all later ones by function.

    The first, and not the largest: a counter that changes its place would let the sums go down, and Prometheus takes
    that for a restart. Functions that are not among the first are summed, too.
    """
    stored = TaskTotal.objects.using(using)
    first = list(stored.exclude(queue=OTHERS).order_by("id").values("id", "queue", "func_path", *ADDED)[:MOST_NAMED])
    rest = stored.filter(queue=OTHERS)
    if len(first) == MOST_NAMED:
        rest = stored.filter(Q(queue=OTHERS) | Q(id__gt=first[-1]["id"]))
    names = {row["func_path"] for row in first}
    label = Case(When(func_path__in=names, then=F("func_path")), default=Value(OTHERS))
    sums: Any = rest.order_by().values(label=label).annotate(**{f"sum_{name}": Sum(name) for name in ADDED})
    return (
        *(total_of(row["queue"], row["func_path"], row) for row in first),
        *(total_of(OTHERS, row["label"], row, "sum_") for row in sums.order_by("label")),
    )


def total_of(queue: str, func_path: str, row: dict[str, Any], prefix: str = "") -> Stat:
    """Return all attempts of one function in one queue, since the beginning."""
    plain = {name: row[prefix + name] for name in (*COUNTS, "seconds", "wait_seconds")}
    ran, waited = ([row[prefix + name] for name in names] for names in (RAN, WAITED))
    return Stat(queue, func_path, **plain, ran=ran, waited=waited)


def holder_of(using: str) -> Holder | None:
    found = engine_for(using).horizon_holder()
    return Holder(**{**found, "query": without_literals(found["query"] or "")}) if found else None


def without_literals(query: str) -> str:
    """Return a statement without its values, which may be secret."""
    return " ".join(LITERALS.sub("?", query).split())[:LONGEST_QUERY]


# The replica


def from_replica(backend: str, read: Callable[[], T]) -> T:
    """Return what `read` returns. Inside it, `database(backend)` is the replica, if there is one that answers."""
    replica = options(backend).console_database
    if replica is None:
        return read()
    before = source.set("replica")
    try:
        return read()
    except (OperationalError, InterfaceError) as error:
        if is_timeout(error):
            raise
        source.set("primary")
        return read()
    finally:
        source.reset(before)


def replica_lag(backend: str) -> float | None:
    """Return by how many seconds what is being read may be old; None if that is not known."""
    engine = engine_for(options(backend).console_database or "")
    return engine.fetch("replica_lag")[0][0] if "replica_lag" in engine.sql else None
