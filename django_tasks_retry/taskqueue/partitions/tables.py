"""The tables of one period: made in one transaction, under locks that nobody waits for long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.db import connections, transaction

from ...guard import guard_child, seal
from ...guard.archive import PARTITIONED
from ...guard.conditions import EVENT, RESULT, STEP, TASK
from .periods import Stretch

LOCK_MILLISECONDS = 500
"""Whoever asks for a lock holds up all who ask after it: rather try again."""

KEYS = {
    RESULT: "PRIMARY KEY (task_id)",
    EVENT: "PRIMARY KEY (task_id, attempt, kind, ts)",
    STEP: "UNIQUE (task_id, name)",
}
FEED = "CREATE INDEX {name} ON {table} USING brin (id) WITH (autosummarize = on)"

# What the pages about tasks ask of those that have succeeded. The other indexes are of what waits, runs or has failed.
ARCHIVE_INDEXES = {
    "runs": "(run_id, id) WHERE NOT (run_id = id)",
    "children": "(parent_id, id) WHERE parent_id IS NOT NULL",
    "retries": "(retry_of_id) WHERE retry_of_id IS NOT NULL",
    "members": "(batch, id) WHERE batch IS NOT NULL",
}
# What is never said about a task here lets the planner leave the table out.
IS_HISTORY = (
    "status = 'SUCCESS' AND finished_at IS NOT NULL AND locked_by IS NULL AND lock_expires_at IS NULL "
    "AND schedule_id IS NULL"
)
GRANTS = """
SELECT format('GRANT %%s ON %%I TO %%s', a.privilege_type, %(child)s::text,
    CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END)
FROM pg_class AS c CROSS JOIN LATERAL aclexplode(c.relacl) AS a
WHERE c.oid = to_regclass(%(parent)s) AND a.grantee <> c.relowner
"""


@contextmanager
def short_locks(using: str) -> Iterator[Any]:
    """A cursor in a transaction whose statements give up where a lock is not to be had soon."""
    with transaction.atomic(using=using), connections[using].cursor() as cursor:
        cursor.execute(f"SET LOCAL lock_timeout = {LOCK_MILLISECONDS}")
        yield cursor


def create_tables(cursor: Any, stretch: Stretch) -> None:
    """Attached, not created as partitions: that would wait for everybody who reads or writes the parent."""
    for table in PARTITIONED:
        create_partition(cursor, table, stretch)
    create_archive(cursor, stretch)
    cursor.execute("SELECT quote_ident(current_schema())")
    [schema] = cursor.fetchone()
    seal(cursor, schema, [f"{table}_{stretch.name}" for table in (TASK, *PARTITIONED)])


def create_partition(cursor: Any, table: str, stretch: Stretch) -> None:
    name = f"{table}_{stretch.name}"
    create_like(cursor, table, name)
    # Said beforehand, it need not be looked for in an empty table; and no longer than that.
    cursor.execute(f"ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES {bounds(stretch.first_id, stretch.end_id)}")
    guard_child(cursor, table, name)


def create_like(cursor: Any, table: str, name: str) -> None:
    cursor.execute(
        f"CREATE TABLE {name} (LIKE {table} INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE, {KEYS[table]})"
    )
    if table == EVENT:
        cursor.execute(FEED.format(name=f"{name}_feed", table=name))
    copy_grants(cursor, table, name)


def create_archive(cursor: Any, stretch: Stretch) -> None:
    name = f"{TASK}_{stretch.name}"
    made_in = f"id >= '{stretch.first_id}' AND id < '{stretch.end_id}'"
    cursor.execute(
        f"CREATE TABLE {name} (PRIMARY KEY (id), CONSTRAINT {name}_history CHECK ({IS_HISTORY} AND {made_in})) "
        f"INHERITS ({TASK}) WITH (autovacuum_vacuum_insert_scale_factor = 1)"
    )
    for suffix, index in ARCHIVE_INDEXES.items():
        cursor.execute(f"CREATE INDEX {name}_{suffix} ON {name} {index}")
    copy_grants(cursor, TASK, name)
    guard_child(cursor, TASK, name)


def bounds(first: UUID | None, end: UUID) -> str:
    return f"FROM ({'MINVALUE' if first is None else repr(str(first))}) TO ('{end}')"


def copy_grants(cursor: Any, parent: str, child: str) -> None:
    """Whoever may write to the one may write to the other: workers with few rights move tasks, too."""
    cursor.execute(GRANTS, {"parent": parent, "child": child})
    for (grant,) in cursor.fetchall():
        cursor.execute(grant)
