"""Create partitions before they are needed. If one cannot be created, rows go to the default partition."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import DatabaseError, connections, transaction

from ...clock import now
from ...guard.conditions import EVENT, PARTITIONED, RESULT, STEP, TASK
from ...guard.postgresql_install import guard_child, seal
from ..database import fetch
from .layout import Layout, Partition, tables_of

logger = logging.getLogger("django_tasks_retry")
PREMAKE = 3  # partitions after the current one
DEFAULT_ROWS = " UNION ALL ".join(
    f"(SELECT 1 FROM {table}_kept WHERE task_id >= %(first)s AND task_id < %(end)s LIMIT 1)" for table in PARTITIONED
)
LOCK_MILLISECONDS = 500
"""A statement that waits for a lock blocks all that ask after it, so it gives up soon and is retried."""

KEYS = {
    RESULT: (f"{RESULT}_pkey", "PRIMARY KEY (task_id)"),
    EVENT: ("dtr_event_once", "PRIMARY KEY (task_id, attempt, kind, ts)"),
    STEP: ("dtr_step_once", "UNIQUE (task_id, name)"),
}
"""Name and columns of the key of a whole table or a parent. PostgreSQL names those of partitions."""

FEED = "CREATE INDEX {name} ON {table} USING brin (id) WITH (autosummarize = on)"

# For the console's pages about succeeded tasks. The other indexes serve tasks that wait, run or have failed.
ARCHIVE_INDEXES = {
    "runs": "(run_id, id) WHERE NOT (run_id = id)",
    "retries": "(retry_of_id) WHERE retry_of_id IS NOT NULL",
    "members": "(batch, id) WHERE batch IS NOT NULL",
}
# The planner skips the table if a query contradicts this constraint.
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


def missing_partitions(layout: Layout, moment: datetime) -> Iterator[Partition]:
    """Yield the current partition and the next ones that have no tables yet."""
    partition = layout.period.containing(moment)
    latest = max((each.end for each in layout.partitions), default=partition.start)
    for _ in range(PREMAKE + 1):
        if partition.start >= latest and partition not in layout.partitions:
            yield partition
        partition = partition.next


def premake(layout: Layout, using: str) -> int:
    """Create missing partitions and return how many. Log each that failed, and leave it to the next call."""
    made = 0
    for partition in list(missing_partitions(layout, now(using))):
        try:
            made += create_partition(partition, using)
        except DatabaseError as error:
            why = " ".join(str(error).split())[:200]
            logger.warning("history has no partition for %s yet, rows go to the default one: %s", partition.name, why)
    return made


def create_partition(partition: Partition, using: str) -> bool:
    """Create the tables; False if the default partition holds rows of that time, which are then pruned one by one."""
    with short_locks(using) as cursor:
        if fetch(DEFAULT_ROWS, {"first": partition.first_id, "end": partition.end_id}, using):
            logger.warning("history has no partition for %s: the default one was written to first", partition.name)
            return False
        create_tables(cursor, partition)
    return True


@contextmanager
def short_locks(using: str) -> Iterator[Any]:
    """Open a transaction whose statements give up if they do not get a lock soon."""
    with transaction.atomic(using=using), connections[using].cursor() as cursor:
        cursor.execute(f"SET LOCAL lock_timeout = {LOCK_MILLISECONDS}")
        yield cursor


def create_tables(cursor: Any, partition: Partition) -> None:
    """Attach new tables: CREATE TABLE … PARTITION OF would wait for every reader and writer of the parent."""
    for table in PARTITIONED:
        name = f"{table}_{partition.name}"
        create_like(cursor, table, name)
        # The table is empty, so validating its bounds takes no time.
        cursor.execute(
            f"ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES {bounds(partition.first_id, partition.end_id)}"
        )
        guard_child(cursor, table, name)
    create_archive(cursor, partition)
    seal(cursor, current_schema(cursor), tables_of(partition))


def create_like(cursor: Any, table: str, name: str) -> None:
    create_bare(cursor, table, name)
    copy_grants(cursor, table, name)


def create_bare(cursor: Any, table: str, name: str) -> None:
    """Create a table with the columns, checks and indexes of a partition. Only its owner can use it."""
    _, key = KEYS[table]
    cursor.execute(
        f"CREATE TABLE {name} (LIKE {table} INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE, {key})"
    )
    if table == EVENT:
        cursor.execute(FEED.format(name=f"{name}_feed", table=name))


def create_archive(cursor: Any, partition: Partition) -> None:
    name = partition.archive
    made_in = f"id >= '{partition.first_id}' AND id < '{partition.end_id}'"
    cursor.execute(
        f"CREATE TABLE {name} (PRIMARY KEY (id), CONSTRAINT {name}_history CHECK ({IS_HISTORY} AND {made_in})) "
        f"INHERITS ({TASK}) WITH (autovacuum_vacuum_insert_scale_factor = 1)"
    )
    for suffix, index in ARCHIVE_INDEXES.items():
        cursor.execute(f"CREATE INDEX {name}_{suffix} ON {name} {index}")
    copy_grants(cursor, TASK, name)
    guard_child(cursor, TASK, name)


def current_schema(cursor: Any) -> str:
    cursor.execute("SELECT quote_ident(current_schema())")
    [schema] = cursor.fetchone()
    return str(schema)


def bounds(first: UUID | None, end: UUID) -> str:
    return f"FROM ({'MINVALUE' if first is None else repr(str(first))}) TO ('{end}')"


def copy_grants(cursor: Any, parent: str, child: str) -> None:
    """Grant the rights on the parent to the child: workers with few rights archive tasks, too."""
    cursor.execute(GRANTS, {"parent": parent, "child": child})
    for (grant,) in cursor.fetchall():
        cursor.execute(grant)
