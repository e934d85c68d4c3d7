"""How PostgreSQL takes new tasks: a chunk is one statement, and the next one is written while the server is at it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from typing import Any

from django.db import connections

from ...models import OWN_COLUMNS, Task
from ..database import cursor_on, fetch
from ..producer.new_tasks import CHUNK, as_dated, as_stored
from .postgresql_insert import RETURNED, statement
from .statements import read_sql

HOLDERS = read_sql("holders")
LOCK_KEY = "SELECT pg_advisory_xact_lock(hashtextextended(%(key)s, 0))"


class PostgreSQLProducer:
    using: str

    def writes_at_once(self, tasks: Sequence[Task]) -> bool:
        return len(tasks) <= CHUNK and not any(task.unique_key for task in tasks)

    def insert(self, tasks: Sequence[Task]) -> list[Task]:
        sql, parameters, alike = statement(tasks)
        return self.written(tasks, fetch(sql, parameters, self.using), alike=alike)

    def insert_each(self, chunks: Iterable[Sequence[Task]]) -> Iterator[list[Task]]:
        with pipelined(self.using), cursor_on(self.using) as one, cursor_on(self.using) as other:
            before: tuple[Any, Sequence[Task], bool] | None = None
            for cursor, chunk in zip(cycle([one, other]), chunks, strict=False):
                sql, parameters, alike = statement(chunk)
                cursor.execute(sql, parameters)
                if before is not None:
                    yield self.answer(*before)
                before = cursor, chunk, alike
            if before is not None:
                yield self.answer(*before)

    def answer(self, cursor: Any, tasks: Sequence[Task], alike: bool) -> list[Task]:  # noqa: FBT001
        return self.written(tasks, cursor.fetchall(), alike=alike)

    def written(self, tasks: Sequence[Task], rows: Sequence[tuple[Any, ...]], *, alike: bool) -> list[Task]:
        """Those that were written: all at the moment that one row tells, or as each row tells."""
        if alike:
            [[moment]] = rows
            return [as_dated(task, moment, self.using) for task in tasks]
        stored = {row[0]: dict(zip((*RETURNED, *OWN_COLUMNS), row, strict=False)) for row in rows}
        return [as_stored(task, stored[task.id], self.using) for task in tasks if task.id in stored]

    def holders(self, tasks: Sequence[Task]) -> Iterable[Task]:
        keys = {"queue": [task.queue for task in tasks], "unique_key": [task.unique_key for task in tasks]}
        ids = [row[0] for row in fetch(HOLDERS, keys, self.using)]
        holders: Iterable[Task] = Task.objects.using(self.using).unfinished().filter(pk__in=ids)
        return holders

    def lock_key(self, queue: str, key: str) -> None:
        fetch(LOCK_KEY, {"key": f"django_tasks_retry {queue} {key}"}, self.using)


@contextmanager
def pipelined(using: str) -> Iterator[None]:
    """Send statements without waiting for the answers to earlier ones, where the driver's library can."""
    from psycopg import Pipeline

    connection = connections[using]
    if not Pipeline.is_supported():
        yield
        return
    connection.ensure_connection()
    with connection.wrap_database_errors, connection.connection.pipeline():
        yield
