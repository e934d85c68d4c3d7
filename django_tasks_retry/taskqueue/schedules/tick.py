"""Tick: schedules that are due become tasks. A slot and its task commit together, by the database's clock.

Any worker ticks. Rows that another one has locked are passed over, and a slot that has its task gets no second one:
neither leader nor log is needed for exactly one task per slot.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

from django.db import connections, transaction
from django.db.models import Q

from ... import registry
from ...clock import Now, now
from ...errors import TaskQueueError
from ...models import OperatorEvent, Schedule, ScheduleQuerySet, Task
from ...rules.schedules.timing import Decision, decide
from ...utc import adapted
from ..database import UNREADABLE, database
from ..engines import engine_for
from ..enqueue.insert import insert_rows, insert_with_middleware
from ..enqueue.notify import notify_work, send_enqueued
from ..events import actor_of, operator_event, write_operator_event
from ..reading import read_rows
from ..shards import hold
from .edit import locked_schedule, shard_with_schedule, task_for

BATCH = 500  # schedules of one transaction: on SQLite others wait for it


@dataclass(frozen=True, slots=True)
class Ticked:
    """The result of a tick: enqueued tasks, whether more may be due, and rows that cannot be understood."""

    enqueued: int = 0
    is_full: bool = False
    troubles: dict[str, str] = field(default_factory=dict)
    ids: tuple[UUID, ...] = ()  # the ids of the tasks that it enqueued


@dataclass(slots=True)
class Due:
    """A schedule that is due, and what becomes of it."""

    schedule: Schedule
    decision: Decision
    task: Task | None = None
    blocked_by: UUID | None = None

    @property
    def outcome(self) -> str:
        return "enqueued" if self.task else "skipped" if self.decision.slot else "missed"

    @property
    def last_slot(self) -> datetime | None:
        missed = self.decision.missed
        return self.decision.slot or (missed.last if missed else None)


def tick(
    *, backend: str = "default", actor: str = "code", listed: Collection[str] = (), without: Collection[str] = ()
) -> Ticked:
    """Enqueue what is due, of at most `BATCH` schedules: those of the database, and those in `listed`."""
    using = database(backend)
    with transaction.atomic(using=using):
        moment = now(using)
        rows = read_rows(locked_due(ticking(backend, listed, without), moment))
        dues, troubles = understood(rows, moment)
        make_tasks(dues, troubles, using)
        dues = [due for due in dues if due.schedule.name not in troubles]
        tasks = [due.task for due in dues if due.task]
        if tasks:
            insert_rows(tasks, using)
        OperatorEvent.objects.using(using).bulk_create([e for due in dues for e in decisions_of(due, actor, moment)])
        move_on(dues, using)
    if tasks:
        notify_work({task.queue for task in tasks}, using)
    return Ticked(len(tasks), len(rows) == BATCH, troubles, tuple(task.id for task in tasks))


def ticking(backend: str, listed: Collection[str], without: Collection[str]) -> ScheduleQuerySet:
    """Return schedules that this process may enqueue: those of its code, or stored ones whose task it knows."""
    rows: ScheduleQuerySet = Schedule.objects.using(database(backend)).active().filter(backend=backend)
    ours = rows.filter(Q(source="database") | Q(name__in=listed), func_path__in=registry.known_paths())
    return ours.exclude(name__in=without) if without else ours


def locked_due(rows: ScheduleQuerySet, moment: datetime) -> ScheduleQuerySet:
    """Return due schedules, locked, skipping those that others have locked."""
    due = rows.filter(next_at__lte=moment).free()
    return due.select_for_update(skip_locked=True, no_key=True).order_by("next_at", "name")[:BATCH]


def understood(rows: Sequence[Schedule], moment: datetime) -> tuple[list[Due], dict[str, str]]:
    """Decide each schedule; a row that cannot be read affects no other."""
    dues, troubles = [], {}
    alike = cache(decide)  # at midnight many have one timing
    for row in rows:
        try:
            dues.append(Due(row, alike(row.timing, row.next_at or moment, moment, row.misfire_grace)))
        except (TaskQueueError, *UNREADABLE) as error:
            troubles[row.name] = f"{row.cron or row.every}: {error}"
    return dues, troubles


def make_tasks(dues: Sequence[Due], troubles: dict[str, str], using: str) -> None:
    """Create tasks for slots that have none and whose previous run allows it."""
    running = unfinished_runs([d.schedule.name for d in dues if d.schedule.overlap == "skip"], using)
    taken = taken_slots(dues, using)
    for due in dues:
        name, slot = due.schedule.name, due.decision.slot
        due.blocked_by = running.get(name) if slot else None
        if slot is None or due.blocked_by or (name, slot) in taken:
            continue
        try:
            task = task_for(due.schedule, slot)
            with hold([task], using):  # one that belongs to another shard must not hold up all others
                due.task = task
        except (TaskQueueError, *UNREADABLE) as error:
            troubles[name] = f"{error}"


def taken_slots(dues: Sequence[Due], using: str) -> set[tuple[str | None, datetime | None]]:
    """Slots that have their task: a schedule that was set back, or made anew, must not stop all others."""
    names, slots = {due.schedule.name for due in dues}, {due.decision.slot for due in dues if due.decision.slot}
    runs = Task.objects.using(using).filter(schedule_id__in=names, slot__in=slots)
    return set(runs.values_list("schedule_id", "slot"))


def decisions_of(due: Due, actor: str, moment: datetime) -> Iterator[OperatorEvent]:
    """Yield events for slots that did not run, with the reason."""
    name, missed = due.schedule.name, due.decision.missed
    if missed is not None:
        why = "nobody could enqueue it in time" if due.decision.slot is None else "a later slot was due as well"
        data: dict[str, Any] = {
            "first": missed.first.isoformat(),
            "last": missed.last.isoformat(),
            "count": missed.count,
        }
        yield operator_event("schedule.missed", name, actor, why, moment, data)
    if due.blocked_by is not None and due.decision.slot is not None:
        data = {"slot": due.decision.slot.isoformat(), "task": str(due.blocked_by)}
        why = "the previous run had not finished"
        yield operator_event("schedule.skipped", name, actor, why, moment, data)


def move_on(dues: Sequence[Due], using: str) -> None:
    connection = connections[using]

    def stored(instant: datetime | None) -> Any:
        return None if instant is None else adapted(instant, connection)

    rows = [
        {
            "next_at": stored(due.decision.next_at),
            "last_at": stored(due.last_slot),
            "outcome": due.outcome,
            "name": due.schedule.name,
        }
        for due in dues
    ]
    if rows:
        engine_for(using).move_schedules_on(rows)


def next_due_in(
    *, backend: str = "default", listed: Collection[str] = (), without: Collection[str] = ()
) -> float | None:
    """Return seconds until the next slot, by the database's clock; None if there is none."""
    rows = ticking(backend, listed, without).order_by("next_at").annotate(moment=Now()).values_list("next_at", "moment")
    for next_at, moment in rows[:1]:
        return (next_at - moment).total_seconds() if next_at else None
    return None


def unfinished_runs(names: Collection[str], using: str) -> dict[str, UUID]:
    """Return an unfinished run by the name of its schedule."""
    runs = Task.objects.using(using).filter(finished_at=None, schedule_id__in=names)
    return dict(runs.values_list("schedule_id", "pk"))


def run_schedule_now(name: str, *, by: Any = None, reason: str = "", backend: str = "default") -> Task:
    """Enqueue its call once, beside the plan, also while it is paused."""
    using = database(shard_with_schedule(name, backend))
    with transaction.atomic(using=using):
        schedule = locked_schedule(name, using)
        [task] = insert_with_middleware([task_for(schedule)], using)
        data = {"task": str(task.pk)}
        write_operator_event("schedule.run_now", name, actor_of(by), reason, using, data)
    send_enqueued([task])
    return task
