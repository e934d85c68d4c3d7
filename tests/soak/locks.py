"""Row locks: somebody keeps rows of running tasks locked, in a transaction that does nothing else for a while."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from tests.soak.database import PostgreSQL

if TYPE_CHECKING:
    from psycopg import Connection

LOCK = """
SELECT id, locked_by FROM django_tasks_retry_task
WHERE status = 'RUNNING' AND lock_expires_at > django_tasks_retry_now() ORDER BY random() LIMIT %s
FOR UPDATE SKIP LOCKED
"""


EVENTS = "LOCK TABLE django_tasks_retry_taskevent IN SHARE ROW EXCLUSIVE MODE"
BESIDE = (
    EVENTS,
    "SELECT 1 FROM django_tasks_retry_worker FOR UPDATE",
    "SELECT 1 FROM django_tasks_retry_queue FOR UPDATE",
    "SELECT 1 FROM django_tasks_retry_lanestate FOR UPDATE",
    "SELECT 1 FROM django_tasks_retry_tasktotal FOR UPDATE",
)
"""Locks beside the tasks: on all events, or on rows that nobody has to write for a task to go on."""


@dataclass(slots=True)
class RowLocks:
    """`held` remembers every task whose row was locked, and whose it was."""

    server: PostgreSQL
    held: dict[UUID, str] = field(default_factory=dict)

    def hold(self, rows: int) -> Connection | None:
        """A transaction that keeps up to so many running tasks locked until it ends."""
        import psycopg

        with suppress(psycopg.Error):
            connection = self.connect()
            found = connection.execute(LOCK, [rows]).fetchall()
            self.held |= dict(found)
            if found:
                return connection
            connection.close()
        return None

    def hold_beside(self, sql: str) -> Connection | None:
        """A transaction that keeps something else than tasks locked until it ends."""
        import psycopg

        with suppress(psycopg.Error):
            connection = self.connect()
            connection.execute(sql)
            return connection
        return None

    def connect(self) -> Connection:
        import psycopg

        return psycopg.connect(
            host="127.0.0.1", port=self.server.port, user="postgres", dbname="postgres", sslmode="disable",
            connect_timeout=2, application_name="soak row lock", options="-c statement_timeout=2s",
        )  # fmt: skip
