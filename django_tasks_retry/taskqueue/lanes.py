"""Lanes: which limit holds for a lane, a queue or a function, and how those that are limited stand.

Settings say what the limit is, else the code; a person's decision, in a row, wins over both. A row is created for what
is limited, locked while it is claimed from, and deleted when nothing needs it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.db.models import Count, F, Q

from .. import registry
from ..clock import now
from ..conf import forgotten, options
from ..errors import InvalidLane
from ..models import FlowLimit, OperatorEvent, Task, TaskQuerySet
from ..models.limits import FUNCTION, LANE, QUEUE, TRIPPED, UNDECIDED, split
from ..rules.lanes import window
from ..rules.lanes.limits import NO_LIMIT, LaneDeclaration, Limit, declaration_of
from ..rules.lanes.templates import RESERVED, matcher
from .database import database
from .engines import engine_for
from .reading import read_rows, unreadable_columns
from .statistics.summaries import count_and_first, depths

KEEP = timedelta(days=31)
PAGE = 1000
COLUMNS = {LANE: "lane", QUEUE: "queue", FUNCTION: "func_path"}  # the task's column for each kind of limit
MOST_SHOWN = 50
MOST_RUNNING = 10


def labels_of(task: Task) -> list[str]:
    """Return what may limit a task: its queue, its function and its lane."""
    return [f"{QUEUE}:{task.queue}", f"{FUNCTION}:{task.func_path}", *([task.lane] if task.lane else [])]


def tasks_of(tasks: TaskQuerySet, kind: str, name: str) -> TaskQuerySet:
    """Return those of a lane, a queue or a function, as the indexes have them."""
    found = tasks.filter(**{COLUMNS[kind]: name})
    return found.filter(lane__gt="") if kind == LANE else found


def limit_of(label: str, backend: str) -> Limit:
    """Return the limit of a lane by its name, or of `queue:…` or `function:…` as a whole."""
    return known_limit(label, backend, registry.size())


@forgotten
@lru_cache(maxsize=10_000)
def known_limit(label: str, backend: str, _registered: int) -> Limit:
    """Remembered until more functions are registered."""
    configured: dict[str, Limit] = options(backend).limits
    if label in configured:
        return configured[label]
    for pattern, limit in configured.items():
        if fnmatchcase(label, pattern) and kind_of(label) == kind_of(pattern):
            return limit
    for declared in () if kind_of(label) else declarations():
        if matcher(declared.template).fullmatch(label):
            return declared.limit
    return NO_LIMIT


def kind_of(label: str) -> str:
    """`queue:` or `function:`, which `*` does not mean; nothing for a lane."""
    return next((kind for kind in RESERVED if label.startswith(kind)), "")


@forgotten
@lru_cache(maxsize=100)
def has_wholes(backend: str) -> bool:
    return any(map(kind_of, options(backend).lanes))


def has_breaker(label: str, backend: str) -> bool:
    return limit_of(label, backend).failure_threshold is not None


def has_breakers(backend: str) -> bool:
    return knows_breakers(backend, registry.size())


@forgotten
@lru_cache(maxsize=100)
def knows_breakers(backend: str, _registered: int) -> bool:
    limits = [*options(backend).limits.values(), *(declared.limit for declared in declarations())]
    return any(limit.failure_threshold is not None for limit in limits)


def declarations() -> list[LaneDeclaration]:
    return [declared for task in registry.registered() if (declared := declaration_of(task.func))]


def decided_limit(state: FlowLimit, limit: Limit) -> Limit:
    """The limit with what a person decided in its place. Raises InvalidLane if the row holds no limit to be kept."""
    if columns := unreadable_columns(state):
        raise InvalidLane(f"{', '.join(columns)} of its row cannot be read.")
    decisions: dict[str, Any] = {} if state.weight is None else {"weight": state.weight}
    if state.running is not None and limit.order != "strict":
        decisions["concurrency"] = state.running
    if state.starts is not None or state.per is not None:
        starts = limit.starts if state.starts is None else state.starts
        decisions["rate"] = starts, limit.per if state.per is None else state.per
    limit = replace(limit, **decisions) if decisions else limit
    if limit.starts is not None:
        window.check_buckets(state.recent)
    return limit


def is_usable(state: FlowLimit, backend: str) -> bool:
    """Return whether tasks of this lane, queue or function may start as soon as there is room."""
    try:
        decided_limit(state, limit_of(state.label, backend))
    except InvalidLane:
        return False
    return state.paused_at is None


def largest_limit(lane: str, backend: str) -> Limit:
    """Return the limit for an audit of the past: without those that people have ever changed."""
    limit, using = limit_of(lane, backend), database(backend)
    events = OperatorEvent.objects.using(using).filter(kind="lane.limited", subject=lane)
    changed = {name for event in read_rows(events) if isinstance(event.data, dict) for name in event.data}
    if limit.order == "strict":
        changed.discard("concurrency")
    lifted: dict[str, Any] = dict.fromkeys(changed & {"concurrency", "rate"})
    return replace(limit, **lifted)


def create_limits(labels: Collection[str], using: str) -> None:
    """Create rows for those that have none. In one order, so that two that create the same cannot deadlock."""
    moment = now(using)
    rows = [FlowLimit(kind=kind, name=name, created_at=moment) for kind, name in sorted(map(split, labels))]
    FlowLimit.objects.using(using).bulk_create(rows, ignore_conflicts=True)


def lock_limits(labels: Collection[str], using: str) -> dict[str, FlowLimit]:
    """Lock these rows until the transaction ends, but those that others have locked or nobody can read. By label."""
    return {row.label: row for row in engine_for(using).lock_limits(labels)} if labels else {}


def count_permits(labels: Collection[str], using: str) -> dict[str, int]:
    """Count the permits that are out. By label; 0 for a name that the database cannot compare, such as one with NUL."""
    return dict.fromkeys(labels, 0) | (engine_for(using).count_leases(labels) if labels else {})


def forget_idle(backend: str = "default") -> int:
    """Delete rows that nothing was decided about, whose tasks are gone and whose starts have left every window."""
    using = database(backend)
    moment = now(using)
    old = FlowLimit.objects.using(using).filter(UNDECIDED, kind=LANE, created_at__lt=moment - KEEP)
    waiting = in_line(using)
    idle = [
        state.pk
        for state in old.order_by("pk")[:PAGE]
        if not has_started_since(moment - KEEP, state) and not has_tasks(state.name, waiting, using)
    ]
    return FlowLimit.objects.using(using).filter(UNDECIDED, pk__in=idle).delete()[0] if idle else 0


def has_started_since(moment: datetime, state: FlowLimit) -> bool:
    """Return whether a start since then may count. Starts that cannot be read do."""
    try:
        window.check_buckets(state.recent)
    except InvalidLane:
        return True
    return any(end > moment.timestamp() for end, _ in state.recent)


def in_line(using: str) -> Q:
    """The queues and priorities in which tasks wait: said for the sake of the index."""
    found = Q(pk__in=[])
    for depth in depths(using):
        found |= Q(queue=depth.queue, priority=depth.priority)
    return found


def has_tasks(lane: str, waiting: Q, using: str) -> bool:
    tasks = Task.objects.using(using)
    return tasks.begun_in(lane).exists() or tasks.pending().filter(waiting, lane=lane).exists()


# How they stand, at a cost that is bounded for each


@dataclass(frozen=True, slots=True)
class LaneSummary:
    """One lane, queue or function with what holds it back. `waiting` counts due tasks, or estimates many."""

    state: FlowLimit
    limit: Limit
    running: int
    waiting: int
    started: int
    opens_in: float
    trouble: str = ""  # the reason why its limit cannot be read; then nothing starts
    waiting_since: datetime | None = None  # when the oldest of the tasks that were counted became due

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
    return summarize_limits(list(found.values())[:MOST_SHOWN], backend)


def busiest(search: str, using: str) -> list[str]:
    """Lanes in which most tasks run. Costs what runs, not what there is."""
    leases = Task.objects.using(using).running().filter(lane__gt="", lane__contains=search)
    return [lane for lane, _ in leases.values_list("lane").annotate(count=Count("pk")).order_by("-count")[:MOST_SHOWN]]


def summarize_limits(states: Sequence[FlowLimit], backend: str) -> list[LaneSummary]:
    using = database(backend)
    running, waiting, moment = count_permits([s.label for s in states], using), in_line(using), now(using)
    return [summary_of(state, running[state.label], waiting, moment, backend) for state in states]


def summary_of(state: FlowLimit, running: int, in_line: Q, moment: datetime, backend: str) -> LaneSummary:
    limit, time, trouble = limit_of(state.label, backend), moment.timestamp(), ""
    try:
        limit = decided_limit(state, limit)
    except InvalidLane as error:
        trouble = str(error)
    due = Task.objects.using(database(backend)).due().filter(in_line, **{COLUMNS[state.kind]: state.name})
    started, opens_in = 0, 0.0
    if limit.starts is not None and not trouble:
        started = sum(count for _, count in window.in_window(state.recent, limit.per, time))
        opens_in = window.opens_in(state.recent, limit.starts, limit.per, time)
    waiting, oldest = count_and_first(due, "eta")
    return LaneSummary(state, limit, running, waiting, started, opens_in, trouble, oldest)


def waiting_in_lane(lane: str, most: int, using: str) -> int:
    """Return how many wait, due or not, in all queues; counted up to `most`."""
    waiting = Task.objects.using(using).pending().filter(in_line(using), lane=lane)
    return int(waiting.order_by()[:most].count())


def running_in(lane: str, using: str) -> list[UUID]:
    """Some of those that run in a lane."""
    running = Task.objects.using(using).begun_in(lane).running()
    return list(running.order_by("pk").values_list("pk", flat=True)[:MOST_RUNNING])
