"""Periodic tasks of django-celery-beat."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .found import Found, rows_of

TABLE = "django_celery_beat_periodictask"
SQL = """\
SELECT p.name, p.task, p.args, p.kwargs, p.queue, p.priority, p.enabled, p.one_off, p.start_time,
    p.interval_id, i.every, i.period,
    p.crontab_id, c.minute, c.hour, c.day_of_month, c.month_of_year, c.day_of_week, c.timezone
FROM django_celery_beat_periodictask AS p
LEFT JOIN django_celery_beat_intervalschedule AS i ON i.id = p.interval_id
LEFT JOIN django_celery_beat_crontabschedule AS c ON c.id = p.crontab_id
ORDER BY p.name\
"""
SECONDS = {"days": 86400.0, "hours": 3600.0, "minutes": 60.0, "seconds": 1.0, "microseconds": 1e-6}


def read(using: str) -> Iterator[Found]:
    for row in rows_of(SQL, TABLE, using):
        if row["task"] != "celery.backend_cleanup":  # Celery's own
            yield found(row)


def found(row: dict[str, Any]) -> Found:
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
        **timing(row),
    }
    return Found(name, row["task"], asked, is_paused=not row["enabled"])


def timing(row: dict[str, Any]) -> dict[str, Any]:
    if row["interval_id"] is not None:
        return {"every": row["every"] * SECONDS[row["period"]]}
    fields = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
    # Celery allows blanks between the values of a field.
    cron = " ".join(str(row[field]).replace(" ", "") for field in fields)
    return {"cron": cron, "timezone": str(row["timezone"])}
