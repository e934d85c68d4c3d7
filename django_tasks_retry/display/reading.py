"""Rows read for the console, also those that cannot be read: each fails alone, and column by column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from django.conf import settings
from django.db import models
from django.db.models import QuerySet
from django.db.utils import DataError
from django.utils import timezone

from ..models import Task
from ..rules.backoff import from_json

Row = TypeVar("Row", bound=models.Model)

UNREADABLE = (DataError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What drivers and decoders raise for a value that Python cannot hold."""

RISKY = (models.DateTimeField, models.JSONField)
FAR_FUTURE = datetime(9999, 1, 1)


def read_rows(rows: QuerySet[Row], columns: Sequence[str] = (), annotations: Sequence[str] = ()) -> list[Row]:
    """All rows. What one holds does not keep the others from being shown."""
    try:
        return [checked(row) for row in rows]
    except UNREADABLE:
        keys = list(rows.values_list("pk", flat=True))
        return [row for key in keys if (row := read_row(rows, key, columns, annotations))]


def read_row(rows: QuerySet[Row], pk: Any, columns: Sequence[str] = (), annotations: Sequence[str] = ()) -> Row | None:
    """One row, by what of it can be read; None where there is none."""
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
    is_read = value is not None or field.null
    return (value, True) if is_read else (stand_in(field), False)


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
    if isinstance(row, Task):
        bad = [name for name, understood in UNDERSTOOD.items() if name in row.__dict__ and not understood(row)]
        if bad:
            row.unreadable_columns = (*unreadable_columns(row), *bad)  # type: ignore[attr-defined]
            for name in bad:
                setattr(row, name, stand_in(row._meta.get_field(name)))
    if any(row.__dict__.get(field.attname, "") is None for field in row._meta.concrete_fields if not field.null):
        raise ValueError(row.pk)
    return row


def has_backoff(task: Task) -> bool:
    try:
        from_json(task.backoff)
    except UNREADABLE:
        return False
    return True


UNDERSTOOD: dict[str, Callable[[Task], bool]] = {
    "args": lambda task: isinstance(task.args, list),
    "kwargs": lambda task: isinstance(task.kwargs, dict),
    "backoff": has_backoff,
    "timeout": lambda task: isinstance(task.timeout, int | float),
    "interval": lambda task: isinstance(task.interval, int | float),
    "last_error": lambda task: isinstance(task.last_error, dict | None),
}


def unreadable_columns(row: models.Model) -> tuple[str, ...]:
    return getattr(row, "unreadable_columns", ())


def unlimited(rows: QuerySet[Row]) -> QuerySet[Row]:
    """The same rows without LIMIT and OFFSET, so that they can be filtered."""
    every = rows.all()
    every.query.clear_limits()
    return every
