"""Carry the history of tasks that outlive their period, however many, so that the period can be dropped.

A few are copied to the default partitions while nobody can write. Many are copied before, page by page, to tables that
then take the place of the period's; only tasks that changed meanwhile are copied under the lock. Such tables are
dissolved into the default partitions once few of their tasks are left.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import OperationalError

from ...guard.conditions import EVENT, PARTITIONED, RESULT, TASK
from ...guard.postgresql_install import guard_child, seal
from ...rules.names import NIL
from ..database import fetch
from .layout import Partition, read_partitions
from .maintain import end_of_page
from .premake import bounds, copy_grants, create_bare, current_schema, short_locks

CARRIED_AT_ONCE = 5_000  # tasks whose history is copied while nobody can write: 0.3 s on two busy cores
PAGE = 1000
UNARCHIVED = f"""
SELECT count(*) FROM (SELECT FROM ONLY {TASK} WHERE id >= %(first)s AND id < %(end)s LIMIT %(most)s) AS t
"""
# Transactions before this one have ended, so every later copy holds what they wrote.
HORIZON = "SELECT pg_snapshot_xmin(pg_current_snapshot())::xid::text"
# A finished task never changes, and has a result. These ids come from indexes: rows of tasks are wide.
UNFINISHED = f"""
SELECT id FROM ONLY {TASK} WHERE id >= %(first)s AND id < %(end)s EXCEPT SELECT task_id FROM {{kept}}
"""
# A move and its events are one transaction. Steps are written by running tasks, whose rows do not change with them.
CHANGED = f"""
SELECT id FROM ONLY {TASK}
WHERE id = ANY (%(ids)s::uuid[]) AND (age(xmin) <= age(%(since)s::xid) OR status = 'RUNNING')
"""
DELETED = f"""
SELECT DISTINCT k.task_id FROM {{kept}} AS k WHERE NOT EXISTS (SELECT FROM ONLY {TASK} AS t WHERE t.id = k.task_id)
"""
HISTORY = f"""
SELECT h.* FROM ONLY {TASK} AS t JOIN {{source}} AS h ON h.task_id = t.id
WHERE t.id >= %(first)s AND t.id < %(end)s
"""
COPY_PAGE = f"INSERT INTO {{kept}} {HISTORY} AND t.id > %(after)s AND t.id <= %(until)s ON CONFLICT DO NOTHING"
COPY_TASKS = f"INSERT INTO {{kept}} {HISTORY} AND t.id = ANY (%(ids)s::uuid[])"


@dataclass(frozen=True, slots=True)
class Copy:
    """The history of a period's unarchived tasks, in tables of its own that are not attached yet."""

    partition: Partition
    since: str  # the oldest transaction whose changes it may lack
    oid: int  # The table of results. It tells whether somebody else has dropped this copy and begun another.


def kept_name(table: str, partition: Partition) -> str:
    return f"{table}_kept_{partition.name}"


def kept_tables(partition: Partition) -> list[str]:
    return [kept_name(table, partition) for table in PARTITIONED]


def has_few_unarchived(partition: Partition, using: str) -> bool:
    asked = {**id_range(partition), "most": CARRIED_AT_ONCE + 1}
    return int(fetch(UNARCHIVED, asked, using)[0][0]) <= CARRIED_AT_ONCE


def id_range(partition: Partition) -> dict[str, Any]:
    return {"first": partition.first_id, "end": partition.end_id}


def copy_pages(partition: Partition, using: str) -> Generator[int, None, Copy]:
    """Copy page by page, while everybody works; yield 0 after each, and return the copy."""
    copy, after = begin_copy(partition, using), NIL
    while until := end_of_page(partition, after, PAGE, using):
        copy_page(partition, after, until, using)
        yield 0
        after = until
    with short_locks(using) as cursor:
        # Or the statements under the lock would be planned for empty tables.
        cursor.execute(f"ANALYZE {', '.join(kept_tables(partition))}")
    yield 0
    return copy


def begin_copy(partition: Partition, using: str) -> Copy:
    """Create the tables of a copy; one that was not completed is dropped."""
    [[since]] = fetch(HORIZON, {}, using)
    with short_locks(using) as cursor:
        lock_archive(cursor, partition)
        cursor.execute(f"DROP TABLE IF EXISTS {', '.join(kept_tables(partition))}")
        for table in PARTITIONED:
            name = kept_name(table, partition)
            create_bare(cursor, table, name)
            # So that attaching it does not read it.
            within = f"task_id >= '{partition.first_id}' AND task_id < '{partition.end_id}'"
            cursor.execute(f"ALTER TABLE {name} ADD CONSTRAINT {name}_bounds CHECK ({within})")
            # It would hold a lock just when the table is to be attached.
            cursor.execute(f"ALTER TABLE {name} SET (autovacuum_enabled = off, toast.autovacuum_enabled = off)")
        return Copy(partition, since, oid_of(cursor, partition) or 0)


def lock_archive(cursor: Any, partition: Partition) -> None:
    """Keep out other droppers, and tasks on their way into the archive. Fails if the period was dropped."""
    cursor.execute(f"LOCK TABLE {partition.archive} IN SHARE ROW EXCLUSIVE MODE")


def oid_of(cursor: Any, partition: Partition) -> int | None:
    cursor.execute("SELECT to_regclass(%s)::oid::bigint", [kept_name(RESULT, partition)])
    [found] = cursor.fetchone()
    return None if found is None else int(found)


def copy_page(partition: Partition, after: UUID, until: UUID, using: str) -> None:
    with short_locks(using) as cursor:
        # Results first: a task whose result is copied had written all of its events.
        for table in PARTITIONED:
            sql = COPY_PAGE.format(kept=kept_name(table, partition), source=f"{table}_{partition.name}")
            cursor.execute(sql, {**id_range(partition), "after": after, "until": until})


def catch_up(cursor: Any, copy: Copy) -> None:
    """Copy what changed since, while nobody can write to this period. Others go on."""
    if oid_of(cursor, copy.partition) != copy.oid:
        raise OperationalError("somebody else drops it, too")
    name = copy.partition.name
    cursor.execute(f"LOCK TABLE {', '.join(f'{table}_{name}' for table in PARTITIONED)} IN SHARE ROW EXCLUSIVE MODE")
    ids = changed_tasks(cursor, copy)
    for table in PARTITIONED if ids else ():
        kept = kept_name(table, copy.partition)
        cursor.execute(f"DELETE FROM {kept} WHERE task_id = ANY (%s::uuid[])", [ids])
        sql = COPY_TASKS.format(kept=kept, source=f"{table}_{name}")
        cursor.execute(sql, {**id_range(copy.partition), "ids": ids})


def changed_tasks(cursor: Any, copy: Copy) -> list[UUID]:
    """Return tasks that were unfinished when they were copied and may have changed, and tasks deleted since."""
    cursor.execute(UNFINISHED.format(kept=kept_name(RESULT, copy.partition)), id_range(copy.partition))
    unfinished = [task_id for (task_id,) in cursor.fetchall()]
    cursor.execute(CHANGED, {"ids": unfinished, "since": copy.since})
    changed = [task_id for (task_id,) in cursor.fetchall()]
    cursor.execute(DELETED.format(kept=kept_name(EVENT, copy.partition)))
    return changed + [task_id for (task_id,) in cursor.fetchall()]


def attach_copy(cursor: Any, copy: Copy) -> None:
    partition = copy.partition
    for table in PARTITIONED:
        name = kept_name(table, partition)
        cursor.execute(
            f"ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES {bounds(partition.first_id, partition.end_id)}"
        )
        cursor.execute(f"ALTER TABLE {name} RESET (autovacuum_enabled, toast.autovacuum_enabled)")
        copy_grants(cursor, table, name)
        guard_child(cursor, table, name)
    seal(cursor, current_schema(cursor), kept_tables(partition))


def carry_over(cursor: Any, table: str, source: str, partition: Partition) -> None:
    """Copy the history of a few tasks to the default partition, under the lock. The guard would refuse it as forged."""
    default, whose, asked = f"{table}_kept", HISTORY.format(source=source), id_range(partition)
    cursor.execute(f"SELECT EXISTS ({whose})", asked)
    if cursor.fetchone()[0]:
        cursor.execute(f"ALTER TABLE {default} DISABLE TRIGGER USER")
        cursor.execute(f"INSERT INTO {default} {whose}", asked)
        cursor.execute(f"ALTER TABLE {default} ENABLE TRIGGER USER")


def kept_partitions(using: str) -> list[Partition]:
    """Return dropped periods of which many tasks are kept, the oldest first."""
    return read_partitions(RESULT, f"{RESULT}_kept_", using)


def dissolve(partition: Partition, using: str) -> None:
    """Carry over the few tasks that are left of a dropped period."""
    with short_locks(using) as cursor:
        cursor.execute(f"LOCK TABLE {', '.join(PARTITIONED)} IN ACCESS EXCLUSIVE MODE")
        for table in PARTITIONED:
            name = kept_name(table, partition)
            cursor.execute(f"ALTER TABLE {table} DETACH PARTITION {name}")
            carry_over(cursor, table, name, partition)
        cursor.execute(f"DROP TABLE {', '.join(kept_tables(partition))}")
