"""Rows of our models as SQLite stores them, by one statement for all: the ORM would look at every value five times."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connections, transaction
from django.db.models import Field, JSONField, Model, UUIDField
from django.db.models.expressions import RawSQL

from ...clock import frozen, now
from ...models import IS_UNFINISHED, Step, Task, TaskEvent, TaskQuerySet, TaskResult
from ...utc import InstantField, sqlite_text
from ..new_tasks import as_dated, key_of
from .base import Engine


class SQLiteRows(Engine):
    @property
    def tasks(self) -> TaskQuerySet:
        tasks: TaskQuerySet = Task.objects.using(self.using)
        return tasks

    @contextmanager
    def writing(self) -> Iterator[datetime]:
        """The write lock, and one reading of the clock for all that is done inside."""
        with transaction.atomic(using=self.using), frozen():
            yield now(self.using)

    def writes_at_once(self, tasks: Sequence[Task]) -> bool:
        return False

    def insert(self, tasks: Sequence[Task]) -> list[Task]:
        """Runs under the write lock, so a key that is free now stays free."""
        moment, fresh = now(self.using), []
        taken = {key_of(holder) for holder in self.holders([task for task in tasks if task.unique_key])}
        for task in tasks:
            if task.unique_key and key_of(task) in taken:
                continue
            taken.add(key_of(task))
            fresh.append(as_dated(task, moment, self.using))
        write_rows(fresh, self.using)
        return fresh

    def insert_each(self, chunks: Iterable[Sequence[Task]]) -> Iterator[list[Task]]:
        return map(self.insert, chunks)

    def holders(self, tasks: Sequence[Task], *, settles: bool = False) -> Iterable[Task]:
        queues, keys = {task.queue for task in tasks}, {task.unique_key for task in tasks}
        return self.tasks.filter(IS_UNFINISHED, queue__in=queues, unique_key__in=keys)

    def lock_key(self, queue: str, key: str) -> None:
        """Every writer has the one write lock."""


def among(ids: Iterable[str]) -> RawSQL:
    """Stored ids as one parameter: the ORM would prepare each of them anew for every statement."""
    return RawSQL("SELECT value FROM json_each(%s)", [json.dumps(list(ids))])


class Insertion(NamedTuple):
    sql: str
    writers: list[tuple[str, Callable[[Any], Any] | None]]  # each column, and its conversion if it needs one


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


def read_whole(ids: Sequence[UUID], using: str) -> list[Mapping[str, Any]]:
    """Tasks with all that tells of them, as export.sql reads them."""
    tasks = Task.objects.using(using).filter(pk__in=ids).order_by("pk").values()
    results = {row["task_id"]: row for row in TaskResult.objects.using(using).filter(pk__in=ids).values()}
    related: dict[str, dict[UUID, list[Any]]] = {"events": defaultdict(list), "steps": defaultdict(list)}
    for name, model in (("events", TaskEvent), ("steps", Step)):
        for row in model._default_manager.using(using).filter(task_id__in=ids).order_by("id").values():
            related[name][row["task_id"]].append(row)
    return [
        {
            "task": task,
            "result": results.get(task["id"]),
            "events": related["events"][task["id"]],
            "steps": related["steps"][task["id"]],
        }
        for task in tasks
    ]
