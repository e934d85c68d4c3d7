"""Rows read although some cannot be: each fails alone, and column by column."""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import lru_cache, partial
from typing import Any, TypeVar
from uuid import UUID

from django.conf import settings
from django.db import models
from django.db.models import QuerySet
from django.utils import timezone

from ..models import Task, TaskQuerySet, Worker
from ..models.limits import ReadableJSONField
from ..rules.backoff import from_json
from .database import UNREADABLE
from .lease import PAYLOAD, Unreadable, check_call, check_depth, is_deeper

logger = logging.getLogger("django_tasks_retry")
Row = TypeVar("Row", bound=models.Model)

RISKY = (models.DateTimeField, models.JSONField)
FAR_FUTURE = datetime(9999, 1, 1)


def read_rows(rows: QuerySet[Row], columns: Sequence[str] = (), annotations: Sequence[str] = ()) -> list[Row]:
    """Read all rows. One that cannot be decoded does not keep the others from being shown."""
    try:
        return [checked(row) for row in rows]
    except UNREADABLE:
        keys = list(rows.values_list("pk", flat=True))
        return [row for key in keys if (row := read_row(rows, key, columns, annotations))]


def read_values(rows: QuerySet[Any], *columns: str) -> list[tuple[Any, ...]]:
    """Read these columns of all rows, with stand-ins for what cannot be decoded."""
    fields = rows.model._meta
    never_empty = [
        place for place, name in enumerate(columns) if name != "pk" and not may_be_none(fields.get_field(name))
    ]
    with suppress(*UNREADABLE):
        found = list(rows.values_list(*columns))
        if not any(values[place] is None for values in found for place in never_empty):
            return found
    return [tuple(getattr(row, name) for name in columns) for row in read_rows(rows)]


def read_row(rows: QuerySet[Row], pk: Any, columns: Sequence[str] = (), annotations: Sequence[str] = ()) -> Row | None:
    """Read one row as far as it can be decoded; None if there is none."""
    row = unlimited(rows).filter(pk=pk)
    try:
        found = row.first()
        return found and checked(found)
    except UNREADABLE:
        return read_by_columns(row, columns, annotations)


def read_by_columns(row: QuerySet[Row], columns: Sequence[str], annotations: Sequence[str]) -> Row | None:
    """Stand-ins take the place of what cannot be read; `unreadable_columns` names them."""
    fields = [field for field in row.model._meta.concrete_fields if not columns or field.attname in columns]
    plain = [field.attname for field in fields if not isinstance(field, RISKY)]
    values = row.values(*plain, *annotations).first()
    if values is None:
        return None
    unreadable = []
    for field in fields:
        if isinstance(field, RISKY):
            values[field.attname], is_read = read_column(row, field)
            unreadable += [] if is_read else [field.attname]
    names = [field.attname for field in fields]
    found = row.model.from_db(row.db, names, [values[name] for name in names])
    for name in annotations:
        setattr(found, name, values[name])
    found.unreadable_columns = tuple(unreadable)  # type: ignore[attr-defined]
    return checked(found)


def read_column(row: QuerySet[Any], field: Any) -> tuple[Any, bool]:
    try:
        value = row.values_list(field.attname, flat=True).first()
    except UNREADABLE:
        return stand_in(field), False
    is_read = value is not None or may_be_none(field)
    return (value, True) if is_read else (stand_in(field), False)


def may_be_none(field: Any) -> bool:
    return field.null or isinstance(field, ReadableJSONField)


def stand_in(field: Any) -> Any:
    if field.null:
        return None
    if isinstance(field, models.JSONField):
        return field.get_default()
    if isinstance(field, models.FloatField):
        return 0.0
    return timezone.make_aware(FAR_FUTURE) if settings.USE_TZ else FAR_FUTURE


def checked(row: Row) -> Row:
    """A column that can be decoded, but not understood, counts as unreadable too."""
    known = UNDERSTOOD.get(type(row), {})
    bad = [name for name, understood in known.items() if name in row.__dict__ and not understood(row)]
    bad += [name for name, value in row.__dict__.items() if isinstance(value, datetime) and not is_shown(value)]
    if bad:
        row.unreadable_columns = (*unreadable_columns(row), *bad)  # type: ignore[attr-defined]
        for name in bad:
            setattr(row, name, stand_in(row._meta.get_field(name)))
    if any(
        row.__dict__.get(field.attname, "") is None for field in row._meta.concrete_fields if not may_be_none(field)
    ):
        raise ValueError(row.pk)
    return row


def is_shown(moment: datetime) -> bool:
    """Return whether a time can be shown in every time zone."""
    return datetime.min.year < moment.year and moment.replace(tzinfo=None) <= FAR_FUTURE


def has_backoff(task: Task) -> bool:
    try:
        from_json(task.backoff)
    except UNREADABLE:
        return False
    return True


def has_payload(task: Task, name: str) -> bool:
    """Judge as workers do: from Python 3.12 on, decoders read what is nested too deep for them."""
    value = getattr(task, name)
    return isinstance(value, PAYLOAD[name]) and not is_deeper(value)


def are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


UNDERSTOOD: dict[type[models.Model], dict[str, Callable[[Any], bool]]] = {
    Task: {
        **{name: partial(has_payload, name=name) for name in PAYLOAD},
        "backoff": has_backoff,
        "timeout": lambda task: isinstance(task.timeout, int | float),
        "interval": lambda task: isinstance(task.interval, int | float),
        "last_error": lambda task: isinstance(task.last_error, dict | None),
    },
    Worker: {
        "queues": lambda worker: are_texts(worker.queues),
        "exclude": lambda worker: are_texts(worker.exclude),
        "tasks": lambda worker: are_texts(worker.tasks),
        "schedules": lambda worker: worker.schedules is None or are_texts(worker.schedules),
        "versions": lambda worker: isinstance(worker.versions, dict | None),
    },
}


def repeatable(tasks: TaskQuerySet, ids: Sequence[UUID]) -> list[Task]:
    """Return those of the tasks whose call can be read, and repeated."""
    return [task for task in readable(tasks, ids) if is_sound(task)]


def is_sound(task: Task) -> bool:
    try:
        check_call(task)
        check_depth(task)
    except Unreadable:
        return False
    return True


def readable(tasks: TaskQuerySet, ids: Sequence[UUID]) -> list[Task]:
    try:
        return list(tasks.filter(pk__in=ids).order_by("pk"))
    except UNREADABLE:
        return [task for pk in sorted(ids) for task in readable_one(tasks, pk)]


def readable_one(tasks: TaskQuerySet, pk: UUID) -> list[Task]:
    try:
        return list(tasks.filter(pk=pk))
    except UNREADABLE as error:
        logger.warning("task %s skipped: its row cannot be read: %s", pk, type(error).__name__)
        return []


def unreadable_columns(row: models.Model) -> tuple[str, ...]:
    return getattr(row, "unreadable_columns", ())


@lru_cache(maxsize=1000)
def log_once(message: str, *details: str) -> None:
    """Log an error about a row that is met again and again, once in a process."""
    logger.error(message, *details)


def unlimited(rows: QuerySet[Row]) -> QuerySet[Row]:
    """The same rows without LIMIT and OFFSET, so that they can be filtered."""
    every = rows.all()
    every.query.clear_limits()
    return every


def set_aside(label: str, why: str) -> None:
    """Log that nothing starts in a lane whose row cannot be used."""
    advice = "Reset its limits with `manage.py tasks limit LANE --clear --reason TEXT`."
    log_once("the lane %r is set aside, and none of its tasks starts: %.200s %s", label, why, advice)
