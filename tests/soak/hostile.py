"""Rows that no client of ours would write, inserted by the least privileged role that may insert at all.

Rows that the database refuses are counted as refused. Rows that it stores must end, as told here,
and cost no other task anything.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import StringIO
from itertools import count
from typing import Any
from uuid import UUID, uuid4

from tests.soak.database import PostgreSQL, SQLite

Columns = dict[str, Any]
FIRST_NUMBER = 10_000_000  # those of ordinary tasks are below
ROLE = "soak_web"
UNREADABLE = frozenset({"UNREADABLE"})
REFUSED_CALL = frozenset({"UNREADABLE", "BAD_ARGUMENTS"})
HARMLESS = frozenset({"UNREADABLE", "SUCCESS"})
LONG = "x" * 5_000_000


@dataclass(frozen=True, slots=True)
class Kind:
    """Columns that differ from a plain row's, and the codes that it may end with; SUCCESS where it can be run."""

    columns: Callable[[int], Columns]
    ends: frozenset[str]
    only: type | None = None


def constant(ends: frozenset[str], only: type | None = None, **columns: Any) -> Kind:
    return Kind(lambda _: columns, ends, only)


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


KINDS = {
    "a plain row": Kind(lambda _: {}, frozenset({"SUCCESS"})),
    "a number of 5001 digits": constant(REFUSED_CALL, args="[1e5000]"),
    "a negative number of 5001 digits": Kind(lambda n: {"args": f"[{n}, 0, -1e5000]"}, REFUSED_CALL),
    "arguments nested 5000 deep": constant(REFUSED_CALL, args=nested(5000)),
    "arguments nested 900 deep": constant(REFUSED_CALL, args=nested(900)),
    "keywords nested 3000 deep": constant(REFUSED_CALL, kwargs=f'{{"seconds": {nested(3000)}}}'),
    "arguments that are no list": constant(REFUSED_CALL, args='{"number": 1}'),
    "arguments that are null": constant(REFUSED_CALL, args="null"),
    "arguments that are a text": constant(REFUSED_CALL, args='"ab"'),
    "keywords that are a list": constant(REFUSED_CALL, kwargs="[1]"),
    "keywords that are a number": constant(REFUSED_CALL, kwargs="7"),
    "keywords that nobody takes": constant(REFUSED_CALL, kwargs='{"nobody": 1}'),
    "too few arguments": constant(REFUSED_CALL, args="[]"),
    "arguments of 5 MB": Kind(lambda n: {"args": f'[{n}, 0, "{LONG}"]'}, REFUSED_CALL),
    "100,000 arguments": constant(REFUSED_CALL, args=f"[{'0,' * 99_999}0]"),
    "backoff of an unknown shape": constant(HARMLESS, backoff='{"x": 1}'),
    "backoff that is a text": constant(HARMLESS, backoff='"soon"'),
    "backoff of texts": constant(HARMLESS, backoff='[1, "x", null]'),
    "backoff by an unknown function": constant(HARMLESS, backoff='{"function": "os.abort"}'),
    "backoff by a function of no name": constant(HARMLESS, backoff='{"function": [1]}'),
    "backoff beyond all numbers": constant(HARMLESS, backoff='{"base": 1e5000, "cap": 1e5000}'),
    "metadata that is a number of 5001 digits": constant(HARMLESS, metadata="1e5000"),
    "metadata of 5 MB": constant(HARMLESS, metadata=f'{{"x": "{LONG}"}}'),
    "metadata nested 5000 deep": constant(HARMLESS, metadata=nested(5000)),
    "an endless timeout": constant(HARMLESS, timeout="Infinity"),
    "a timeout that is no number": constant(HARMLESS, timeout="NaN"),
    "a timeout of 1e300 seconds": constant(HARMLESS, timeout="1e300"),
    "a timeout of 1e-300 seconds": constant(HARMLESS | {"TIMEOUT"}, timeout="1e-300"),
    "an endless interval": constant(HARMLESS, interval="Infinity", slot="2020-01-01 00:00:00"),
    "created in year 20000": constant(HARMLESS, only=PostgreSQL, created_at="20000-01-01 00:00:00+00"),
    "created before Christ": constant(HARMLESS, only=PostgreSQL, created_at="4000-01-01 00:00:00 BC"),
    "due for ever": constant(HARMLESS, only=PostgreSQL, eta="-infinity"),
    "due before Christ": constant(HARMLESS, only=PostgreSQL, eta="4000-01-01 00:00:00 BC"),
    "created on no day": constant(HARMLESS, only=SQLite, created_at="yesterday"),
    "bytes as arguments": constant(REFUSED_CALL, only=SQLite, args=b"\xff\xfe"),
    "a lone surrogate": Kind(lambda n: {"args": f'[{n}, 0, "\\ud800"]'}, REFUSED_CALL),
    "an error before the first attempt": constant(HARMLESS, last_error="1e5000"),
    "progress before the first attempt": constant(HARMLESS, progress=nested(5000)),
    "a budget of 2 billion": constant(HARMLESS, max_attempts=2_147_483_647),
    "running, with a lease": constant(
        frozenset(), status="RUNNING", attempts=1, locked_by="me", lock_expires_at="2200-01-01 00:00:00"
    ),
    "finished": constant(frozenset(), status="SUCCESS", attempts=1, finished_at="2020-01-01 00:00:00"),
    "tried before": constant(frozenset(), attempts=3, refunds=3),
}  # fmt: skip


def kinds_of(database: PostgreSQL | SQLite) -> dict[str, Kind]:
    return {name: kind for name, kind in KINDS.items() if kind.only in (None, type(database))}


def plain_row(task_id: UUID, number: int, now: str) -> Columns:
    ids = {"id": task_id, "run_id": task_id}
    call = {"func_path": "tests.soak.tasks.work", "args": f"[{number}, 0.01]", "kwargs": "{}", "metadata": "{}"}
    policy = {"backend": "default", "max_attempts": 60, "timeout": 20.0, "interval": 0.0}
    place = {"queue": "default", "priority": 0, "status": "PENDING", "attempts": 0, "refunds": 0}
    return ids | call | policy | place | {"created_at": now, "eta": now, "updated_at": now}


@dataclass(slots=True)
class HostileProducer:
    """Inserts one row of each kind in turn. `tried` are all that may be there, `acknowledged` those that must."""

    database: PostgreSQL | SQLite
    chance: random.Random
    tried: dict[UUID, str] = field(default_factory=dict)
    numbers: dict[UUID, int] = field(default_factory=dict)
    acknowledged: dict[UUID, int] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    next_number: Iterator[int] = field(default_factory=lambda: count(FIRST_NUMBER))
    line: list[str] = field(default_factory=list)

    @property
    def unsure(self) -> set[int]:
        return {self.numbers[task] for task in self.tried}

    def turn(self) -> None:
        if not self.line:
            self.line = list(kinds_of(self.database))
            self.chance.shuffle(self.line)
        self.insert(self.line.pop())

    def insert_all(self) -> None:
        for name in kinds_of(self.database):
            self.insert(name)

    def insert(self, name: str) -> None:
        task, number = uuid4(), next(self.next_number)
        row = plain_row(task, number, now_text()) | KINDS[name].columns(number)
        self.tried[task], self.numbers[task] = name, number
        verdict = INSERTS[type(self.database)](self.database, row)
        if verdict == "refused":
            self.refused[name] += 1
            del self.tried[task]
        elif verdict == "stored":
            self.acknowledged[task] = number


def now_text() -> str:
    return datetime.fromtimestamp(time.time() - 1, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


def grant_role(database: PostgreSQL) -> None:
    """The roles of `manage.py tasksql`, and a login that has the least of them."""
    from django.core.management import call_command
    from django.db import connection

    roles = StringIO()
    call_command("tasksql", "roles", stdout=roles)
    with connection.cursor() as cursor:
        cursor.execute(roles.getvalue())
        cursor.execute(
            f"CREATE ROLE {ROLE} LOGIN; GRANT tasks_producer TO {ROLE}; ALTER ROLE {ROLE} SET TimeZone = UTC"
        )


def insert_postgresql(database: PostgreSQL, row: Columns) -> str:
    import psycopg

    try:
        with psycopg.connect(
            host="127.0.0.1", port=database.port, user=ROLE, dbname="postgres", sslmode="disable", connect_timeout=2
        ) as connection:
            connection.execute(
                f"INSERT INTO {TABLE} ({names(row)}) VALUES ({', '.join(['%s'] * len(row))})", [*row.values()]
            )
    except psycopg.OperationalError:
        return "unsure"
    except psycopg.Error:
        return "refused"
    return "stored"


def insert_sqlite(database: SQLite, row: Columns) -> str:
    values = [value.hex if isinstance(value, UUID) else value for value in row.values()]
    try:
        with closing(sqlite3.connect(database.file, timeout=1)) as connection, connection:
            connection.execute(f"INSERT INTO {TABLE} ({names(row)}) VALUES ({', '.join('?' * len(row))})", values)
    except sqlite3.Error as error:
        return "unsure" if "locked" in str(error) else "refused"
    return "stored"


def names(row: Mapping[str, Any]) -> str:
    return ", ".join(f'"{name}"' for name in row)


TABLE = "django_tasks_retry_task"
INSERTS: dict[type, Callable[[Any, Columns], str]] = {PostgreSQL: insert_postgresql, SQLite: insert_sqlite}
