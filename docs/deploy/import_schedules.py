"""Bring along the schedules of django-celery-beat or django-q2, read from their tables.

Copy this file to management/commands/import_schedules.py of one of your apps, and remove it afterwards.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connections, transaction
from django.utils import timezone

from django_tasks_retry.errors import TaskQueueError
from django_tasks_retry.models import Schedule
from django_tasks_retry.taskqueue import create_schedule, database, pause
from django_tasks_retry.taskqueue.database import fetch_dicts

ACTOR = "import"


@dataclass(frozen=True, slots=True)
class Found:
    """A schedule as its source holds it.

    `problem` says why it cannot come along, and what to do about it; `left_behind` are wishes that do not come along.
    """

    name: str
    task: str = ""
    asked: dict[str, Any] = field(default_factory=dict)
    is_paused: bool = False
    problem: str = ""
    left_behind: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        when = self.asked.get("cron") or f"every {self.asked.get('every'):g} s"
        left = ", ".join(f"{name}={value}" for name, value in self.left_behind.items())
        return f"{self.task} · {when}{' · paused' if self.is_paused else ''}{f' · without {left}' if left else ''}"


class Command(BaseCommand):
    help = "Bring along the schedules of another queue. A dry run, unless you add --apply."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--from", dest="source", required=True, choices=sorted(SOURCES), help="the other queue")
        parser.add_argument("--apply", action="store_true", help="make them; without it nothing is written")
        parser.add_argument("--backend", default="default", metavar="ALIAS", help="the alias in TASKS")

    def handle(self, *args: Any, source: str, apply: bool, backend: str, **options: Any) -> None:
        using, made, left_out = database(backend), 0, 0
        table, sql, read = SOURCES[source]
        with transaction.atomic(using=using):
            for found in map(read, rows_of(sql, table, using)):
                problem = found.problem or problem_of_making(found, backend, using)
                made, left_out = made + (not problem), left_out + bool(problem)
                self.stdout.write(f"{'-' if problem else '+'} {found.name}: {problem or found}")
            transaction.set_rollback(not apply, using=using)
        done = f"{made} made" if apply else f"Dry run: {made} would be made"
        self.stderr.write(f"{done}, {left_out} left out.{'' if apply else ' Add --apply to make them.'}")


def problem_of_making(found: Found, backend: str, using: str) -> str:
    """Make it, from now on; one that was switched off comes paused. Return why it cannot be made."""
    if Schedule.objects.using(using).filter(pk=found.name).exists():
        return "A schedule of this name exists already."
    try:
        with transaction.atomic(using=using):
            options = {"by": ACTOR, "reason": "imported", "backend": backend}
            create_schedule(name=found.name, task=found.task, **options, **found.asked)
            if found.is_paused:
                reason = "it was switched off in its source"
                pause(found.name, kind="schedule", by=ACTOR, reason=reason, backend=backend)
    except TaskQueueError as error:
        return str(error)
    return ""


def rows_of(sql: str, table: str, using: str) -> list[dict[str, Any]]:
    """Read the tables themselves: the other package may have been uninstalled before."""
    with connections[using].cursor() as cursor:
        if table not in connections[using].introspection.table_names(cursor):
            raise CommandError(f"The database {using!r} has no table {table}. Is it in another database?")
    try:
        with transaction.atomic(using=using):
            return fetch_dicts(sql, {}, using)
    except DatabaseError as error:
        raise CommandError(f"{table} is not as expected: {error}. Is it of another version?") from None


# django-celery-beat

BEAT_SQL = """\
SELECT p.*, i.every, i.period, c.minute, c.hour, c.day_of_month, c.month_of_year, c.day_of_week, c.timezone
FROM django_celery_beat_periodictask AS p
LEFT JOIN django_celery_beat_intervalschedule AS i ON i.id = p.interval_id
LEFT JOIN django_celery_beat_crontabschedule AS c ON c.id = p.crontab_id
WHERE p.task <> 'celery.backend_cleanup' -- Celery's own
ORDER BY p.name\
"""
BEAT_LEFT = ("expire_seconds", "priority", "exchange", "routing_key", "headers")
PERIODS = {"days": 86400.0, "hours": 3600.0, "minutes": 60.0, "seconds": 1.0, "microseconds": 1e-6}


def beat_found(row: dict[str, Any]) -> Found:
    name = str(row["name"])[:128]
    if row["one_off"]:
        return Found(name, problem="It runs once. Enqueue it with an eta instead.")
    if row["interval_id"] is None and row["crontab_id"] is None:
        return Found(
            name, problem="It is neither an interval nor a crontab (solar and clocked ones have no counterpart)."
        )
    try:
        args, kwargs = json.loads(row["args"] or "[]"), json.loads(row["kwargs"] or "{}")
    except ValueError:
        return Found(name, problem="Its arguments are not JSON.")
    asked = {
        "args": args,
        "kwargs": kwargs,
        "queue": row["queue"] or None,
        "starts_at": row["start_time"],
        "ends_at": row.get("expires"),
        **beat_timing(row),
    }
    return Found(name, row["task"], asked, is_paused=not row["enabled"], left_behind=wishes_of(row, BEAT_LEFT))


def wishes_of(row: dict[str, Any], columns: Iterable[str]) -> dict[str, Any]:
    """Return what the row asks for in these columns, of which some may not exist in other versions."""
    return {name: row[name] for name in columns if row.get(name) not in (None, "", "{}")}


def beat_timing(row: dict[str, Any]) -> dict[str, Any]:
    if row["interval_id"] is not None:
        return {"every": row["every"] * PERIODS[row["period"]]}
    fields = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
    # Celery allows blanks between the values of a field.
    cron = " ".join(str(row[field]).replace(" ", "") for field in fields)
    return {"cron": cron, "timezone": str(row["timezone"])}


# django-q2

Q2_SQL = "SELECT * FROM django_q_schedule ORDER BY id"
Q2_LEFT = ("hook", "cluster", "intended_date_kwarg")
TWO_WEEKS = 14 * 86400


def q2_found(row: dict[str, Any]) -> Found:
    name = str(row["name"] or f"{row['func']} {row['id']}")[:128]
    if row["schedule_type"] == "O":
        return Found(name, problem="It runs once. Enqueue it with an eta instead.")
    if row["repeats"] > 0:
        return Found(
            name, problem=f"It ends after {row['repeats']} more runs; a schedule ends at a time. Give ends_at."
        )
    try:
        args, kwargs = read_args(row["args"]), read_kwargs(row["kwargs"])
    except (SyntaxError, ValueError, TypeError):
        return Found(name, problem="Its arguments are not plain values.")
    planned = q2_timing(row)
    if not planned:
        return Found(name, problem=f"The type {row['schedule_type']!r} has no counterpart.")
    asked, left = {"args": args, "kwargs": kwargs, **planned}, wishes_of(row, Q2_LEFT)
    return Found(name, row["func"], asked, is_paused=row["repeats"] == 0, left_behind=left)


def read_args(text: str | None) -> list[Any]:
    """Read arguments as django-q2 does: a tuple, or one value."""
    if not text:
        return []
    value = ast.literal_eval(text)
    return list(value) if isinstance(value, tuple) else [value]


def read_kwargs(text: str | None) -> dict[str, Any]:
    """A dictionary, or keywords as in a call."""
    if not text:
        return {}
    if text.strip().startswith("{"):
        return dict(ast.literal_eval(text))
    call = ast.parse(f"f({text})", mode="eval").body
    if not isinstance(call, ast.Call) or call.args:
        raise ValueError(text)
    return {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}


def q2_timing(row: dict[str, Any]) -> dict[str, Any]:
    """Days, weeks and months keep the local time of the next run, also when the clocks change."""
    kind, run = row["schedule_type"], local(row["next_run"])
    at = f"{run.minute} {run.hour}"
    months = {step: ",".join(str(m) for m in range(1, 13) if (m - run.month) % step == 0) for step in (2, 3)}
    timings: dict[str, dict[str, Any]] = {
        "C": {"cron": row["cron"] or ""},
        "I": {"every": (row["minutes"] or 0) * 60},
        "H": {"cron": f"{run.minute} * * * *"},
        "D": {"cron": f"{at} * * *"},
        "W": {"cron": f"{at} * * {run.isoweekday() % 7}"},
        "BW": {"every": TWO_WEEKS, "starts_at": row["next_run"]},
        "M": {"cron": f"{at} {run.day} * *"},
        "BM": {"cron": f"{at} {run.day} {months[2]} *"},
        "Q": {"cron": f"{at} {run.day} {months[3]} *"},
        "Y": {"cron": f"{at} {run.day} {run.month} *"},
    }
    return timings.get(kind, {})


def local(moment: datetime) -> datetime:
    return moment.astimezone(timezone.get_default_timezone())


SOURCES: dict[str, tuple[str, str, Callable[[dict[str, Any]], Found]]] = {
    "django-celery-beat": ("django_celery_beat_periodictask", BEAT_SQL, beat_found),
    "django-q2": ("django_q_schedule", Q2_SQL, q2_found),
}
"""Source → its table, the statement that reads it, and what a row of it means."""
