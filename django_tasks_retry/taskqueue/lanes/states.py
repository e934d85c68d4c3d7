"""The rows of lanes: made where a lane is limited, held while it is claimed from, gone when nothing needs them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta

from django.db.models import Count, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce

from ...clock import Now, now
from ...models import LaneState, Task
from ...models.lanes import FUNCTION, LANE, QUEUE, split
from ..database import database

KEEP = timedelta(days=31)
PAGE = 1000
COLUMNS = {LANE: "lane", QUEUE: "queue", FUNCTION: "func_path"}
"""Where a task tells which lane, queue and function it is of."""


def make(labels: Collection[str], using: str) -> None:
    """Rows for those that have none. In one order for everybody, so that two that make the same cannot deadlock."""
    moment = now(using)
    rows = [LaneState(kind=kind, name=name, created_at=moment) for kind, name in sorted(map(split, labels))]
    LaneState.objects.using(using).bulk_create(rows, ignore_conflicts=True)


def hold(labels: Collection[str], using: str) -> dict[str, LaneState]:
    """Lock the rows of these, but those that somebody else holds, until the transaction ends. By label."""
    states = LaneState.objects.using(using).among(labels).order_by("kind", "name").annotate(held_at=Now())
    return {state.label: state for state in states.select_for_update(skip_locked=True)}


def count_running(labels: Collection[str], using: str) -> dict[str, int]:
    """The permits that are out: leases, expired or not, until they are taken back.

    A statement of its own, after the lock: one snapshot for both would be older than the lock.
    """
    running: dict[str, int] = dict.fromkeys(labels, 0)
    for kind, column in COLUMNS.items():
        names = [name for of_kind, name in map(split, labels) if of_kind == kind]
        if names:
            prefix = "" if kind == LANE else f"{kind}:"
            for name, count in leases_by(column, names, using):
                running[f"{prefix}{name}"] = count
    return running


def leases_by(column: str, names: Sequence[str], using: str) -> Iterable[tuple[str, int]]:
    leases = Task.objects.using(using).running().order_by()
    if column == "lane":
        # Lane by lane, in the index of their leases. Asked for all at once, a planner without statistics took the one
        # of all leases, by bitmap: that reads every dead entry again, and leaves it there for the next one to read.
        in_lane = leases.filter(lane=OuterRef("name"), lane__gt="").values("lane").annotate(count=Count("pk"))
        states = LaneState.objects.using(using).filter(kind=LANE, name__in=names)
        found: Iterable[tuple[str, int]] = states.values_list("name", Coalesce(Subquery(in_lane.values("count")), 0))
        return found
    counted: Iterable[tuple[str, int]] = (
        leases.filter(**{f"{column}__in": names}).values_list(column).annotate(Count("pk"))
    )
    return counted


def forget_idle(backend: str = "default") -> int:
    """Delete rows that nothing was decided about, whose tasks are gone and whose starts have left every window."""
    using = database(backend)
    moment = now(using)
    undecided = Q(running=None, starts=None, per=None, weight=None, paused_at=None, probing_since=None)
    old = LaneState.objects.using(using).filter(undecided, kind=LANE, created_at__lt=moment - KEEP)
    idle = [
        state.pk
        for state in old.order_by("pk")[:PAGE]
        if not any(end > (moment - KEEP).timestamp() for end, _ in state.recent) and not has_tasks(state.name, using)
    ]
    return LaneState.objects.using(using).filter(undecided, pk__in=idle).delete()[0] if idle else 0


def has_tasks(lane: str, using: str) -> bool:
    return bool(Task.objects.using(using).unfinished().filter(lane=lane, lane__gt="").exists())
