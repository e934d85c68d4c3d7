"""Schedules as their pages show them: timing in words, the next instants, and how the last runs went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import BooleanField
from django.db.models.expressions import RawSQL
from django.utils.translation import gettext

from ...display.display_status import badge, display_status_of
from ...display.explain_schedule import State, state_of
from ...display.formatting import format_duration, format_elapsed, format_relative, one_line
from ...display.reading import read_rows
from ...display.scope import Scope
from ...models import Schedule, Task
from ...rules.names import short_name
from ...rules.schedules.timing import UNREADABLE, zone_of
from ...rules.status import Status
from ..pages.charts import SPARK_HEIGHT, Shape

RUNS = 30
INSTANTS = 5
RUN_COLUMNS = (
    "id", "func_path", "status", "attempts", "refunds", "eta", "slot", "created_at", "last_attempt_at", "finished_at",
)  # fmt: skip
REPEATING = RawSQL("interval > 0.0", [], BooleanField())
UNFINISHED = RawSQL("status IN ('PENDING', 'RUNNING')", [], BooleanField())


@dataclass(frozen=True, slots=True)
class Instant:
    """One slot to come, in the schedule's own zone and for the reader."""

    moment: datetime
    local: str
    offset_changes: bool


@dataclass(frozen=True, slots=True)
class Run:
    pk: Any
    badge: Any
    slot: datetime | None
    enqueued: datetime
    duration: str


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    key: str
    name: str
    task: str
    words: str
    expression: str
    timezone: str
    state: State
    next_at: datetime | None
    next_in: str
    instants: list[Instant]
    last_run: Run | None
    spark: list[Shape]


def translated(words: str) -> str:
    """An expression in words, in the language of a project that has them in a catalogue of its own."""
    return gettext(words) if words else ""


def schedule_row(schedule: Schedule, scope: Scope) -> ScheduleRow:
    tasks = slot_runs(schedule.name, scope)
    return ScheduleRow(
        key=schedule.name,
        name=one_line(schedule.name, 128),
        task=one_line(short_name(schedule.func_path), 80),
        words=translated(one_line(schedule.timing.words, 200)),
        expression=one_line(schedule.cron or format_duration(schedule.every or 0), 100),
        timezone=one_line(schedule.timezone, 64) if schedule.cron else "",
        state=state_of(schedule, scope.now),
        next_at=schedule.next_at,
        next_in=format_relative(schedule.next_at, scope.now) if schedule.next_at else "",
        instants=next_instants(schedule, scope.now),
        last_run=run_of(tasks[0], scope.now) if tasks else None,
        spark=spark_of(tasks, scope.now),
    )


def next_instants(schedule: Schedule, now: datetime) -> list[Instant]:
    """None where it does not run, or where nobody can tell."""
    if schedule.paused_at or schedule.vanished_at or schedule.next_at is None:
        return []
    try:
        return instants(schedule.timing.upcoming(now, INSTANTS), schedule.timezone)
    except (ValueError, *UNREADABLE):
        return []


def instants(moments: Sequence[datetime], timezone: str) -> list[Instant]:
    """In the schedule's zone; those after which the clocks have changed are marked."""
    zone, found, offset = zone_of(timezone), [], None
    for moment in moments:
        local = moment.astimezone(zone)
        changes = offset is not None and local.utcoffset() != offset
        offset = local.utcoffset()
        found.append(Instant(moment, f"{local:%Y-%m-%d %H:%M:%S %Z}", changes))
    return found


def slot_runs(name: str, scope: Scope) -> list[Task]:
    """The last runs by plan, newest first: the order of an index."""
    runs = Task.objects.using(scope.using).filter(schedule_id=name, slot__isnull=False).order_by("-slot")[:RUNS]
    return read_rows(runs.only(*RUN_COLUMNS), RUN_COLUMNS)


def other_runs(name: str, scope: Scope) -> list[Task]:
    """The last that people asked for: run now, and retries."""
    runs = Task.objects.using(scope.using).filter(schedule_id=name, slot__isnull=True).order_by("-id")[:RUNS]
    return read_rows(runs.only(*RUN_COLUMNS), RUN_COLUMNS)


def run_of(task: Task, now: datetime) -> Run:
    began, ended = task.last_attempt_at, task.finished_at or now
    duration = format_elapsed(began, ended) if began else ""
    return Run(task.pk, badge(display_status_of(task, now)), task.slot, task.created_at, duration)


KINDS = {Status.SUCCESS: "success", Status.FAILED: "failed", Status.CANCELLED: "cancelled", Status.RUNNING: "running"}


def spark_of(tasks: Sequence[Task], now: datetime) -> list[Shape]:
    """One bar for each run, oldest first: as high as it took long, in the colour of its end."""
    lasted = [seconds_of(task, now) for task in reversed(tasks)]
    longest, width = max(lasted, default=0.0) or 1.0, 100 / RUNS
    return [
        Shape(
            f"{n * width:.2f}",
            f"{SPARK_HEIGHT - height:.2f}",
            f"{width * 0.8:.2f}",
            f"{height:.2f}",
            KINDS.get(Status(task.status), "waiting"),
            "",
        )
        for n, (task, seconds) in enumerate(zip(reversed(tasks), lasted, strict=True))
        for height in [max(3.0, seconds / longest * SPARK_HEIGHT)]
    ]


def seconds_of(task: Task, now: datetime) -> float:
    if task.last_attempt_at is None:
        return 0.0
    lasted: timedelta = (task.finished_at or now) - task.last_attempt_at
    return max(0.0, lasted.total_seconds())


def interval_series(scope: Scope, limit: int = 50) -> list[dict[str, Any]]:
    """Series of `interval=` that go on: each shows by its next occurrence."""
    columns = ("id", "func_path", "status", "attempts", "refunds", "eta", "interval", "queue")
    series = Task.objects.using(scope.using).filter(UNFINISHED, REPEATING).order_by("func_path", "id")[:limit]
    return [
        {
            "pk": task.pk,
            "name": one_line(short_name(task.func_path), 80),
            "every": format_duration(task.interval),
            "next": task.eta,
            "badge": badge(display_status_of(task, scope.now)),
            "queue": one_line(task.queue, 64),
        }
        for task in read_rows(series.only(*columns), columns)
    ]
