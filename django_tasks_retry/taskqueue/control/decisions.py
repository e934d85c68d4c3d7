"""Decisions of operators: pause, resume and limit queues, lanes, functions and schedules; ask workers to stop.

Each keeps its pause in its own row, in columns of the same names: claims read those of queues and lanes in their
statement, and workers may write the row of a lane, but not that of a queue.
"""

from datetime import datetime
from typing import Any, TypeAlias

from django.db import transaction

from ...clock import now
from ...conf import check_queue
from ...errors import InvalidCall, InvalidLane, UnknownQueue
from ...models import FlowLimit, Queue, Schedule, Task, Worker
from ...models.limits import FUNCTION, LANE, QUEUE, split
from ...rules.lanes import window
from ...rules.lanes.limits import MOST, Limit, Rate
from ...rules.lanes.templates import checked_lane
from ..database import database
from ..enqueue.notify import notify_work_on_commit
from ..events import actor_of, shortened, write_operator_event
from ..lanes import create_limits, decided_limit, limit_of
from ..reading import read_row, read_rows
from ..schedules.edit import locked_schedule
from ..statistics.summaries import depths

SCHEDULE = "schedule"
KINDS = (QUEUE, LANE, FUNCTION, SCHEDULE)
Pausable: TypeAlias = Queue | FlowLimit | Schedule


def pause(name: str, *, kind: str = QUEUE, by: Any = None, reason: str = "", backend: str = "default") -> bool:
    """Start nothing of a queue, lane or function; enqueue nothing for a schedule. Running tasks go on.

    Returns False if a schedule was paused already. For others, the new author and reason replace those before.
    """
    using = database(backend)
    with transaction.atomic(using=using):
        row = locked_row(kind, name, backend, make=True)
        if row is None or (isinstance(row, Schedule) and row.paused_at is not None):
            return False
        set_paused(row, actor_of(by), reason, now(using), using)
    return True


def resume(name: str, *, kind: str = QUEUE, by: Any = None, reason: str = "", backend: str = "default") -> bool:
    """Let tasks start again. A schedule goes on with its next slot: nothing is enqueued for the past.

    Returns False if it was not paused.
    """
    using = database(backend)
    with transaction.atomic(using=using):
        row = locked_row(kind, name, backend, make=False)
        if row is None or (row.paused_at is None and getattr(row, "probing_since", None) is None):
            return False
        set_resumed(row, actor_of(by), reason, now(using), using)
    return True


def locked_row(kind: str, name: str, backend: str, *, make: bool) -> Pausable | None:
    """Lock the row that holds the pause. Queues, lanes and functions have one once something was decided."""
    if kind not in KINDS:
        raise InvalidCall(f"kind={kind!r}: a pause is for one of {', '.join(KINDS)}.")
    kind, name = split(name) if kind == LANE else (kind, name)
    using = database(backend)
    if kind == SCHEDULE:
        return locked_schedule(name, using)
    if kind == QUEUE:
        if make:
            check_queue_in_use(name, backend)
            Queue.objects.using(using).get_or_create(name=name)
        queue: Queue | None = Queue.objects.using(using).select_for_update().filter(name=name).first()
        return queue
    label = name if kind == LANE else f"{kind}:{name}"
    if make:
        return locked_state(label, using)
    state: FlowLimit | None = FlowLimit.objects.using(using).among([label]).select_for_update().first()
    return state


def check_queue_in_use(queue: str, backend: str) -> None:
    """Refuse a name that stands neither in the settings nor in any waiting task: it is mistyped."""
    try:
        check_queue(queue, backend)
    except UnknownQueue:
        if not Task.objects.using(database(backend)).pending().filter(queue=queue).exists():
            raise


def set_paused(
    row: Pausable, actor: str, reason: str, moment: datetime, using: str, probe_at: datetime | None = None
) -> None:
    """Write a pause and its event. `probe_at` is when a circuit breaker lets the first task try."""
    columns: dict[str, Any] = {"paused_at": moment, "paused_by": actor, "reason": shortened(reason)}
    if isinstance(row, FlowLimit):
        columns |= {"probe_at": probe_at, "probing_since": None, "probe_from": None}
    write_decision(row, "paused", columns, actor, reason, using)


def set_resumed(row: Pausable, actor: str, reason: str, moment: datetime, using: str) -> None:
    """Write the end of a pause and its event, and wake the workers."""
    columns: dict[str, Any] = {"paused_at": None, "paused_by": "", "reason": ""}
    if isinstance(row, FlowLimit):
        # Counted from the start, the breaker would trip at once for failures that are over.
        columns |= {"probe_at": None, "probing_since": None, "probe_from": None, "counts_from": moment}
    if isinstance(row, Schedule):
        columns["next_at"] = row.timing.after(moment)
    write_decision(row, "resumed", columns, actor, reason, using)
    if isinstance(row, Queue):
        notify_work_on_commit({row.name}, using)
    elif isinstance(row, FlowLimit):
        notify_work_on_commit({depth.queue for depth in depths(using)}, using)


def write_decision(row: Pausable, verb: str, columns: dict[str, Any], actor: str, reason: str, using: str) -> None:
    """Write these columns alone, whatever the others hold, and the event."""
    if isinstance(row, Schedule):
        columns["updated_at"] = now(using)
    for column, value in columns.items():
        setattr(row, column, value)
    row.save(using=using, update_fields=list(columns))
    if isinstance(row, FlowLimit):
        write_operator_event(f"lane.{verb}", row.label, actor, reason, using, {"lane": row.label})
    else:
        write_operator_event(f"{row._meta.model_name}.{verb}", row.name, actor, reason, using)


def pause_of(task: Task, using: str) -> Queue | FlowLimit | None:
    """Return the row whose pause keeps this task from starting: of its queue, lane or function."""
    queue: Queue | None = read_row(Queue.objects.using(using).paused(), task.queue)
    if queue is not None:
        return queue
    labels = [*([task.lane] if task.lane else []), f"{FUNCTION}:{task.func_path}"]
    states = read_rows(FlowLimit.objects.using(using).among(labels).filter(paused_at__isnull=False)[:1])
    return states[0] if states else None


def ask_to_stop(worker_id: str, *, by: Any = None, reason: str = "", backend: str = "default") -> bool:
    """Ask a worker to finish its running tasks and stop. Returns False if it has stopped, or was asked before."""
    using, actor = database(backend), actor_of(by)
    with transaction.atomic(using=using):
        serving = Worker.objects.using(using).filter(pk=worker_id, stopped_at__isnull=True, stop_asked_at__isnull=True)
        asked = bool(serving.update(stop_asked_at=now(using), stop_asked_by=actor))
        if asked:
            write_operator_event("worker.stop_asked", worker_id, actor, reason, using)
    return asked


def limit_lane(
    label: str,
    *,
    concurrency: int | None = None,
    rate: Rate | None = None,
    weight: float | None = None,
    by: Any = None,
    reason: str = "",
    backend: str = "default",
) -> Limit:
    """Decide the limits of a lane, queue or function: they win over code and settings. None leaves those to them."""
    using, limit = (
        database(backend),
        Limit(concurrency=concurrency, rate=rate, weight=1.0 if weight is None else weight),
    )
    if weight is not None and split(label)[0] != LANE:
        raise InvalidLane(f"{label!r}: a weight is for lanes, which share workers.")
    with transaction.atomic(using=using):
        state = locked_state(label, using)
        state.running, state.weight = concurrency, weight
        state.starts, state.per = limit.starts, limit.per if limit.rate else None
        state.decided_by, state.decided_for = actor_of(by), shortened(reason)
        forget_unreadable(state, now(using))
        state.save(update_fields=[*FlowLimit.DECISIONS, "decided_by", "decided_for", "recent"])
        decisions = {"concurrency": concurrency, "rate": limit.rate, "weight": weight}
        data = {"lane": state.label, **{name: value for name, value in decisions.items() if value is not None}}
        write_operator_event("lane.limited", state.label, actor_of(by), reason, using, data)
        notify_work_on_commit({depth.queue for depth in depths(using)}, using)
    return decided_limit(state, limit_of(label, backend))


def forget_unreadable(state: FlowLimit, moment: datetime) -> None:
    """Replace starts that cannot be read by as many as can be: a rate is kept, and has room after one window."""
    try:
        window.check_buckets(state.recent)
    except InvalidLane:
        state.recent = [(moment.timestamp(), MOST)]


def locked_state(label: str, using: str) -> FlowLimit:
    """Lock the row of a lane, queue or function. Make it if there is none."""
    kind, name = split(label)
    if kind == LANE:
        checked_lane(name)
    elif not name or (kind == FUNCTION and "." not in name):
        raise InvalidLane(f"{label!r}: give the path of the function, such as function:shop.tasks.pay.")
    create_limits([label], using)
    state: FlowLimit = FlowLimit.objects.using(using).select_for_update().get(kind=kind, name=name)
    return state
