"""Schedules as their pages show them: timing in words, the next instants, and the outcomes of the last runs."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from django.db.models import BooleanField
from django.db.models.expressions import RawSQL
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext as _

from ...display.explain_schedule import Missed, schedule_state
from ...display.formatting import format_duration, format_elapsed, format_moment, format_relative, one_line
from ...display.scope import Scope
from ...display.states import SCHEDULED, State, badge, colour_of, task_state
from ...models import Schedule, Task
from ...rules.names import short_name
from ...rules.schedules.timing import zone_of
from ...taskqueue import UNREADABLE, read_rows
from .charts import SPARK_HEIGHT, shape

RUNS = 30
LATE = 60.0  # seconds after its slot from which a run is shown as late
INSTANTS = 5
RUN_COLUMNS = (
    "id", "func_path", "status", "attempts", "refunds", "eta", "slot", "created_at", "last_attempt_at", "finished_at",
    "started_at",
)  # fmt: skip
REPEATING = RawSQL("interval > 0.0", [], BooleanField())


def schedule_row(schedule: Schedule, scope: Scope, missed: Iterable[Missed]) -> dict[str, Any]:
    tasks = runs_of(schedule.name, scope, "-slot")
    upcoming = next_instants(schedule, scope.now)
    description = one_line(schedule.timing.description, 200)
    return {
        "key": schedule.name,
        "name": one_line(schedule.name, 128),
        "task": one_line(short_name(schedule.func_path), 80),
        # A project can translate its expressions in a catalogue of its own.
        "description": gettext(description) if description else "",
        "expression": one_line(schedule.cron or format_duration(schedule.every or 0), 100),
        "timezone": one_line(schedule.timezone, 64) if schedule.cron else "",
        "badge": badge(schedule_state(schedule, scope.now)),
        "next_in": format_relative(schedule.next_at, scope.now) if schedule.next_at else "",
        "instants": upcoming,
        "last_run": run_of(tasks[0], scope.now) if tasks else None,
        "strip": strip_of(tasks, missed, upcoming, scope.now),
    }


def next_instants(schedule: Schedule, now: datetime) -> list[dict[str, Any]]:
    """Return the next instants; an empty list if the schedule does not run or its timing cannot be read."""
    if schedule.paused_at or schedule.vanished_at or schedule.next_at is None:
        return []
    try:
        return instants(schedule.timing.upcoming(now, INSTANTS), schedule.timezone)
    except UNREADABLE:
        return []


def instants(moments: Sequence[datetime], timezone: str) -> list[dict[str, Any]]:
    """Return the moments in the schedule's zone; `offset_changes` marks the first after a change of the clocks."""
    local = [moment.astimezone(zone_of(timezone)) for moment in moments]
    return [
        {
            "moment": moment,
            "local": f"{there:%Y-%m-%d %H:%M:%S %Z}",
            "offset_changes": there.utcoffset() != before.utcoffset(),
        }
        for moment, there, before in zip(moments, local, [*local[:1], *local], strict=False)
    ]


def runs_of(name: str, scope: Scope, order: str) -> list[Task]:
    """Return the newest runs: of slots in the order of an index, `-slot`, or those that users asked for, `-id`."""
    runs = Task.objects.using(scope.using).filter(schedule_id=name, slot__isnull=order != "-slot").order_by(order)
    return read_rows(runs.only(*RUN_COLUMNS)[:RUNS], RUN_COLUMNS)


def run_of(task: Task, now: datetime) -> dict[str, Any]:
    began = task.last_attempt_at
    late = ((task.started_at or began or now) - task.slot).total_seconds() if task.slot else 0.0
    return {
        "late": format_duration(late) if late > LATE else "",
        "pk": task.pk,
        "badge": badge(task_state(task, now)),
        "slot": task.slot,
        "enqueued": task.created_at,
        "duration": format_elapsed(began, task.finished_at or now) if began else "",
    }


def slot_of(missed: Missed) -> dict[str, Any]:
    """Return slots that did not run, as a row among the runs."""
    return {"slot": missed.last, "badge": badge(State("missed", "failed", "!", slot_text(missed)))}


def slot_text(missed: Missed) -> str:
    text = _("skipped: the previous run had not finished") if missed.is_skipped else _("missed: no worker was there")
    if missed.count > 1:
        text = ngettext("%(count)s slot", "%(count)s slots", missed.count) % {"count": missed.count} + f" · {text}"
    return text


def strip_of(
    tasks: Sequence[Task], missed: Iterable[Missed], upcoming: Sequence[dict[str, Any]], now: datetime
) -> dict[str, Any]:
    """Draw a cell for each slot: the last ones by their outcome, and the next ones, with the counts in words."""
    states = [(task.slot, colour_of(task), str(task_state(task, now).label)) for task in tasks if task.slot]
    states += [(each.last, "missed", slot_text(each)) for each in missed]
    past = sorted(states)[-RUNS:]
    cells = [*past, *((each["moment"], "next", str(SCHEDULED.label)) for each in upcoming)]
    first, width = RUNS - len(past), 100 / (RUNS + INSTANTS)
    shapes = [
        shape((first + n) * width, 1, width * 0.7, SPARK_HEIGHT - 2, kind, f"{format_moment(moment)} {label}")
        for n, (moment, kind, label) in enumerate(cells)
    ]
    counts = Counter(label for _moment, _kind, label in cells)
    return {"shapes": shapes, "text": ", ".join(f"{count} {label}" for label, count in counts.items())}


def interval_series(scope: Scope, limit: int = 50) -> list[dict[str, Any]]:
    """Return the series of `interval=` that continue, each by its next occurrence."""
    columns = ("id", "func_path", "status", "attempts", "refunds", "eta", "interval", "queue")
    series = Task.objects.using(scope.using).filter(REPEATING, schedule=None, finished_at=None)
    series = series.order_by("schedule_id", "func_path", "id")[:limit]
    return [
        {
            "pk": task.pk,
            "name": one_line(short_name(task.func_path), 80),
            "every": format_duration(task.interval),
            "next": task.eta,
            "badge": badge(task_state(task, scope.now)),
            "queue": one_line(task.queue, 64),
        }
        for task in read_rows(series.only(*columns), columns)
    ]
