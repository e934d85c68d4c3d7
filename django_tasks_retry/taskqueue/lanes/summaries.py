"""Summaries of lanes: what runs, what waits, what is full or paused; at a cost that is bounded for each lane."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Count, F, Q

from ...clock import now
from ...errors import InvalidLane
from ...models import FlowLimit, Task
from ...models.limits import LANE, TRIPPED
from ...rules.lanes import window
from ...rules.lanes.limits import Limit
from ..database import database
from ..reading import read_rows
from .limits import COLUMNS, count_running, decided, in_line, limit_of

MOST_SHOWN = 50
MOST_WAITING = 1000
MOST_RUNNING = 10


@dataclass(frozen=True, slots=True)
class LaneSummary:
    """One lane, queue or function with what holds it back. `waiting` counts due tasks, up to MOST_WAITING + 1."""

    state: FlowLimit
    limit: Limit
    running: int
    waiting: int
    started: int
    opens_in: float
    trouble: str = ""
    """The reason why its limit cannot be read; then nothing starts."""

    @property
    def label(self) -> str:
        return self.state.label

    @property
    def is_paused(self) -> bool:
        return self.state.paused_at is not None

    @property
    def is_full(self) -> bool:
        most = 1 if self.state.probing_since else self.limit.most_running
        return most is not None and self.running >= most

    @property
    def is_throttled(self) -> bool:
        return self.limit.starts is not None and self.started >= self.limit.starts


def summarize_lanes(backend: str, search: str = "") -> list[LaneSummary]:
    """Summarize lanes that have a row: paused and tripped ones first, then the busiest, then those with limits."""
    using = database(backend)
    states = FlowLimit.objects.using(using).filter(name__contains=search) if search else FlowLimit.objects.using(using)
    stopped = states.filter(paused_at__isnull=False).order_by("-paused_at")[:MOST_SHOWN]
    probing = states.filter(TRIPPED)[:MOST_SHOWN]
    busy = states.filter(kind=LANE, name__in=busiest(search, using))
    others = states.order_by(F("decided_by").desc(), "kind", "name")[:MOST_SHOWN]
    found = {state.pk: state for states in (stopped, probing, busy, others) for state in read_rows(states)}
    return summarize(list(found.values())[:MOST_SHOWN], backend)


def busiest(search: str, using: str) -> list[str]:
    """Lanes in which most tasks run. Costs what runs, not what there is."""
    leases = Task.objects.using(using).running().filter(lane__gt="", lane__contains=search)
    return [lane for lane, _ in leases.values_list("lane").annotate(count=Count("pk")).order_by("-count")[:MOST_SHOWN]]


def summarize(states: Sequence[FlowLimit], backend: str) -> list[LaneSummary]:
    using = database(backend)
    running, waiting, moment = count_running([s.label for s in states], using), in_line(using), now(using)
    return [summary_of(state, running[state.label], waiting, moment, backend) for state in states]


def summary_of(state: FlowLimit, running: int, in_line: Q, moment: datetime, backend: str) -> LaneSummary:
    limit, time, trouble = limit_of(state.label, backend), moment.timestamp(), ""
    try:
        limit = decided(state, limit)
    except InvalidLane as error:
        trouble = str(error)
    due = Task.objects.using(database(backend)).due().filter(in_line, **{COLUMNS[state.kind]: state.name})
    started, opens_in = 0, 0.0
    if limit.starts is not None and not trouble:
        started = sum(count for _, count in window.in_window(state.recent, limit.per, time))
        opens_in = window.opens_in(state.recent, limit.starts, limit.per, time)
    return LaneSummary(state, limit, running, due[: MOST_WAITING + 1].count(), started, opens_in, trouble)


def waiting_in_lane(lane: str, most: int, using: str) -> int:
    """Return how many wait, due or not, in all queues; counted up to `most`."""
    waiting = Task.objects.using(using).pending().filter(in_line(using), lane=lane)
    return int(waiting.order_by()[:most].count())


def running_in(lane: str, using: str) -> list[UUID]:
    """Some of those that run in a lane."""
    running = Task.objects.using(using).begun_in(lane).running()
    return list(running.order_by("pk").values_list("pk", flat=True)[:MOST_RUNNING])
