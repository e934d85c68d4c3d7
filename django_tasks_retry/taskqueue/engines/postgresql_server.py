"""PostgreSQL: the server itself. Its abilities, time limits, estimates and wake-ups."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from django.core.checks import CheckMessage
from django.db import connections, transaction
from django.db.models import QuerySet

from ...conf import message
from ...guard.abilities import abilities_of, abilities_of_tables
from ...models import Task, TaskEvent
from ..database import as_array, fetch
from .base import Engine
from .statements import SQL, Functions

IDENTITY = "SELECT system_identifier || '/' || current_database() || '/' || current_schema() FROM pg_control_system()"
NOTIFY = "SELECT pg_notify(%(channel)s, m) FROM unnest(%(messages)s::text[]) AS m"
# Its commit record waits for no disk: a wake-up need not survive a crash.
UNFLUSHED = NOTIFY.replace(" FROM", ", set_config('synchronous_commit', 'off', true) FROM")
LAST_EVENT = "SELECT pg_sequence_last_value(pg_get_serial_sequence(%(table)s, 'id')::regclass)"
# With the tables of finished tasks, where history is partitioned.
ESTIMATE = """
SELECT CASE WHEN min(c.reltuples) FILTER (WHERE c.oid = to_regclass(%(table)s)) < 0 THEN -1
    ELSE sum(GREATEST(c.reltuples, 0))::bigint END
FROM pg_class AS c
WHERE c.oid = to_regclass(%(table)s)
    OR c.oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = to_regclass(%(table)s))
"""


class PostgreSQLServer(Engine):
    has_server = has_row_locks = True

    def __init__(self, using: str) -> None:
        self.using, self.functions = using, Functions(using)
        self.call = self.functions.run

    @property
    def sql(self) -> Mapping[str, str]:
        return SQL["postgresql" if abilities_of(self.using).row_place else "without places"]

    @property
    def can_notify(self) -> bool:
        return abilities_of(self.using).listen

    @property
    def can_partition(self) -> bool:
        return abilities_of_tables(self.using).guards_partitions

    def as_list(self, values: Sequence[str]) -> str:
        return as_array(values)

    def identity(self) -> str:
        with connections[self.using].cursor() as cursor:
            cursor.execute(IDENTITY)
            return str(cursor.fetchone()[0])

    def encoding(self) -> str:
        connections[self.using].ensure_connection()
        return str(connections[self.using].connection.info.parameter_status("server_encoding"))

    def limit_locks(self, seconds: float) -> None:
        with connections[self.using].cursor() as cursor:
            cursor.execute(f"SET LOCAL lock_timeout = {max(1, round(seconds * 1000))}")

    @contextmanager
    def limit_statements(self, seconds: float, whole: float) -> Iterator[None]:
        """A transaction, so that the limit ends with it, whatever happens and whoever pools the connection."""
        with transaction.atomic(using=self.using), connections[self.using].cursor() as cursor:
            cursor.execute("SELECT current_setting('statement_timeout')")
            previous = cursor.fetchone()[0]
            set_timeout(cursor, f"{max(1, round(seconds * 1000))}ms")
            yield
            set_timeout(cursor, previous)

    def check_settings(self) -> list[CheckMessage]:
        connection: Any = connections[self.using]
        if connection.Database.__name__ == "psycopg":
            return []
        text = "Tasks are tested with psycopg 3 only; this project uses psycopg2."
        return [message("W002", text, "pip install 'django-tasks-retry[postgres]' and remove psycopg2.")]

    def estimate_failures(self) -> dict[str, int]:
        return dict(self.fetch("estimate_failures", {"table": Task._meta.db_table}))

    def estimate_rows(self, table: str) -> int:
        return int(fetch(ESTIMATE, {"table": table}, self.using)[0][0])

    def estimate_count(self, tasks: QuerySet[Any]) -> int:
        """Return what the planner expects: it reads statistics, and no row."""
        return int(json.loads(tasks.order_by().values("pk").explain(format="json"))[0]["Plan"]["Plan Rows"])

    def horizon_holder(self) -> dict[str, Any] | None:
        return next(iter(self.rows("horizon", {})), None)

    def last_event_id(self) -> int:
        # The table has no index that knows its last id: every event would pay for it.
        [[last]] = fetch(LAST_EVENT, {"table": TaskEvent._meta.db_table}, self.using)
        return last or 0

    def notify(self, channel: str, messages: Sequence[str]) -> None:
        alone = connections[self.using].get_autocommit()  # else the commit is the caller's
        fetch(UNFLUSHED if alone else NOTIFY, {"channel": channel, "messages": as_array(messages)}, self.using)


def set_timeout(cursor: Any, value: str) -> None:
    cursor.execute("SELECT set_config('statement_timeout', %s, true)", [value])
