"""Rows of our models as SQLite stores them, by one statement for all: the ORM would look at every value five times."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from django.db import connections
from django.db.models import Field, JSONField, Model, UUIDField

from ...instants import InstantField, sqlite_text


class Insertion(NamedTuple):
    sql: str
    writers: list[tuple[str, Callable[[Any], Any] | None]]
    """Each column, and how it is written where that is not as it is."""


def write_rows(rows: Sequence[Model], using: str) -> None:
    """New rows of one model, in this order."""
    if not rows:
        return
    insertion = insertion_of(type(rows[0]))
    with connections[using].cursor() as cursor:
        cursor.executemany(insertion.sql, [values_of(vars(row), insertion.writers) for row in rows])


def values_of(row: dict[str, Any], writers: list[tuple[str, Callable[[Any], Any] | None]]) -> list[Any]:
    return [row[name] if write is None or row[name] is None else write(row[name]) for name, write in writers]


@cache
def insertion_of(model: type[Model]) -> Insertion:
    fields = [field for field in model._meta.concrete_fields if field is not model._meta.auto_field]
    names, places = ", ".join(f'"{field.column}"' for field in fields), ", ".join(["%s"] * len(fields))
    sql = f'INSERT INTO "{model._meta.db_table}" ({names}) VALUES ({places})'  # noqa: S608 - names of our own
    return Insertion(sql, [(field.attname, writer_of(field)) for field in fields])


def writer_of(field: Field[Any, Any]) -> Callable[[Any], Any] | None:
    field = getattr(field, "target_field", field)
    if isinstance(field, JSONField):
        encoder = field.encoder  # texts as the ORM writes them, which searches compare
        return lambda value: json.dumps(value, cls=encoder) if value != {} else "{}"
    if isinstance(field, UUIDField):
        return lambda value: value.hex
    return sqlite_text if isinstance(field, InstantField) else None
