"""Schedules of django-q2."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.utils import timezone

from .found import Found, rows_of

TABLE = "django_q_schedule"
SQL = """\
SELECT id, name, func, args, kwargs, schedule_type, minutes, repeats, next_run, cron
FROM django_q_schedule
ORDER BY id\
"""
TWO_WEEKS = 14 * 86400


def read(using: str) -> Iterator[Found]:
    for row in rows_of(SQL, TABLE, using):
        yield found(row)


def found(row: dict[str, Any]) -> Found:
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
    planned = timing(row)
    if not planned:
        return Found(name, problem=f"The type {row['schedule_type']!r} has no counterpart.")
    return Found(name, row["func"], {"args": args, "kwargs": kwargs, **planned}, is_paused=row["repeats"] == 0)


def read_args(text: str | None) -> list[Any]:
    """As django-q2 reads them: a tuple, or one value."""
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


def timing(row: dict[str, Any]) -> dict[str, Any]:
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
