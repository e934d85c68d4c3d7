"""Convert history to partitions while the queue works, and back.

The tables of results, events and steps become the first partition of new parents that take their names. A CHECK
constraint, the bound, states that they hold nothing from a coming instant on. It is validated while workers go on; the
switch then takes a moment, under locks for which nobody waits long. Each step can be repeated after it failed.
"""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import OperationalError, connections

from ...clock import now
from ...errors import CannotPartition
from ...guard.conditions import EVENT, PARTITIONED, RESULT, STEP, TASK
from ...guard.postgresql_install import guard_child, guard_known_ids, guard_parent, seal
from ...rules.names import time_of
from ..database import fetch
from ..engines import engine_for
from .layout import Layout, Partition, Period, read_layout
from .premake import FEED, KEYS, bounds, copy_grants, create_like, create_tables, current_schema, premake, short_locks

MARGIN = timedelta(days=1)  # the bound admits rows at least for so long: validating it takes less
TRIES = 60
PAUSE_SECONDS = 1.0
Say = Callable[[str], None]

BOUND_STATE = """
SELECT con.convalidated, pg_get_constraintdef(con.oid)
FROM pg_constraint AS con WHERE con.conrelid = to_regclass(%(table)s) AND con.conname = %(name)s
"""
REFERRING = """
SELECT DISTINCT conrelid::regclass::text FROM pg_constraint WHERE contype = 'f' AND confrelid = to_regclass(%(table)s)
"""
BOUND = "dtr_before_partitions"
NUMBERED = (EVENT, STEP)
COPIES = """
SELECT relname FROM pg_class
WHERE relnamespace = quote_ident(current_schema())::regnamespace AND relkind = 'r' AND relname LIKE ANY (%s)
"""
INDEXES = "SELECT relname FROM pg_index JOIN pg_class ON oid = indexrelid WHERE indrelid = %s::regclass"
TRIGGERS = "SELECT tgname FROM pg_trigger WHERE tgrelid = %s::regclass AND NOT tgisinternal"


def partition_history(using: str, period: Period, backends: Sequence[str], say: Say = lambda _: None) -> Layout:
    """Partition the history of this database. If it is partitioned already, create missing partitions."""
    check_possible(using)
    if (layout := read_layout(using)) is not None:
        premake(layout, using)
        return read_layout(using) or layout
    layout = Layout(period, tuple(backends))
    if not retry_locks(lambda: convert_empty(using, layout), say):
        partition = bound_tables(using, period, say)
        say("Validating existing rows. Workers keep running.")
        for table in PARTITIONED:
            validate(table, using)
        say("Switching tables.")
        retry_locks(lambda: switch_tables(using, layout, partition), say)
    premake(read_layout(using) or layout, using)
    return read_layout(using) or layout


def check_possible(using: str) -> None:
    if not engine_for(using).can_partition:
        raise CannotPartition("History can be partitioned on PostgreSQL only.")
    if tables := [name for (name,) in fetch(REFERRING, {"table": TASK}, using)]:
        raise CannotPartition(
            f"{', '.join(tables)} refer to tasks by a foreign key that the database checks, so tasks cannot move to "
            "other tables. Give these fields db_constraint=False, and migrate."
        )


def retry_locks(act: Callable[[], Any], say: Say) -> Any:
    """Retry until the locks are free. Waiting for one would block every statement that comes after."""
    for left in reversed(range(TRIES)):
        try:
            return act()
        except OperationalError as error:
            if not left or getattr(error.__cause__, "sqlstate", "") not in {"55P03", "40P01"}:
                raise
            say("Somebody else holds a lock. Trying again.")
            time.sleep(PAUSE_SECONDS)
    raise AssertionError("the last try returns or raises")


def convert_empty(using: str, layout: Layout) -> bool:
    """Convert empty tables, from the current period on. False if something is stored already."""
    with short_locks(using) as cursor:
        cursor.execute(f"LOCK TABLE {', '.join(PARTITIONED)} IN ACCESS EXCLUSIVE MODE")
        if any(is_filled(table, cursor) for table in PARTITIONED):
            return False
        create_parents(cursor, layout, None)
        create_tables(cursor, layout.period.containing(now(using)))
    return True


def is_filled(table: str, cursor: Any) -> bool:
    cursor.execute(f"SELECT EXISTS (SELECT 1 FROM {table})")
    return bool(cursor.fetchone()[0])


def bound_tables(using: str, period: Period, say: Say) -> Partition:
    """Bound the tables, and return the first partition with tables of its own; no stored row is of its time."""
    if (begun := bound_until(using)) is not None:
        first = period.containing(begun)
    else:
        newest = [time_of(found) for table in PARTITIONED if (found := newest_id(table, using))]
        first = period.containing(max([now(using), *newest]) + MARGIN).next
    for table in PARTITIONED:
        if not fetch(BOUND_STATE, {"table": table, "name": BOUND}, using):
            retry_locks(lambda table=table: add_bound(table, first, using), say)  # type: ignore[misc]
    say(f"Partitions begin with {first.start:%Y-%m-%d %H:%M} UTC.")
    return first


def newest_id(table: str, using: str) -> UUID | None:
    found: list[tuple[UUID]] = fetch(f"SELECT task_id FROM {table} ORDER BY task_id DESC LIMIT 1", {}, using)
    return found[0][0] if found else None


def add_bound(table: str, first: Partition, using: str) -> None:
    with short_locks(using) as cursor:
        cursor.execute(f"ALTER TABLE {table} ADD CONSTRAINT {BOUND} CHECK (task_id < '{first.first_id}') NOT VALID")


def bound_until(using: str) -> datetime | None:
    """Return until when an unfinished conversion admits rows; None if there is none."""
    for table in PARTITIONED:
        for _, definition in fetch(BOUND_STATE, {"table": table, "name": BOUND}, using):
            return time_of(UUID(definition.split("'")[1])).astimezone(UTC)
    return None


def validate(table: str, using: str) -> None:
    if not fetch(BOUND_STATE, {"table": table, "name": BOUND}, using)[0][0]:
        with connections[using].cursor() as cursor:
            cursor.execute(f"ALTER TABLE {table} VALIDATE CONSTRAINT {BOUND}")


def drop_bound(using: str) -> bool:
    """Drop the bound of a conversion that was not completed: soon it would refuse new rows."""
    taken = False
    for table in PARTITIONED:
        if fetch(BOUND_STATE, {"table": table, "name": BOUND}, using) and read_layout(using) is None:
            with short_locks(using) as cursor:
                cursor.execute(f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {BOUND}")
            taken = True
    return taken


def switch_tables(using: str, layout: Layout, first: Partition) -> None:
    with short_locks(using) as cursor:
        cursor.execute(f"LOCK TABLE {', '.join(PARTITIONED)} IN ACCESS EXCLUSIVE MODE")
        create_parents(cursor, layout, first)
        create_tables(cursor, first)


def undo_partitioning(using: str, say: Say = lambda _: None) -> bool:
    """Restore whole tables with all rows. False if history is not partitioned."""
    if drop_bound(using) or read_layout(using) is None:
        return False
    retry_locks(lambda: switch_back(using), say)
    return True


def switch_back(using: str) -> None:
    with short_locks(using) as cursor:
        cursor.execute(f"LOCK TABLE {TASK}, {', '.join(PARTITIONED)} IN ACCESS EXCLUSIVE MODE")
        restore_tables(cursor)


def create_parents(cursor: Any, layout: Layout, first: Partition | None) -> None:
    """Replace whole tables by partitioned ones. Without a first partition the old ones are empty, and dropped."""
    for table in PARTITIONED:
        before = f"{table}_before"
        rename_table(cursor, table, before)
        create_table(cursor, table, before, "PARTITION BY RANGE (task_id)")
        if first is None:
            cursor.execute(f"DROP TABLE {before}")
        else:
            cursor.execute(f"ALTER TABLE {table} ATTACH PARTITION {before} FOR VALUES {bounds(None, first.first_id)}")
        create_like(cursor, table, f"{table}_kept")
        cursor.execute(f"ALTER TABLE {table} ATTACH PARTITION {table}_kept DEFAULT")
        guard_parent(cursor, table)
        for child in [f"{table}_kept"] + ([before] if first else []):
            guard_child(cursor, table, child)
    guard_known_ids(cursor)
    cursor.execute(f"COMMENT ON TABLE {RESULT} IS '{layout.mark}'")
    seal(cursor, current_schema(cursor))


def rename_table(cursor: Any, table: str, away: str) -> None:
    """Rename the table with its indexes and drop its triggers: the new table takes these names."""
    cursor.execute(TRIGGERS, [table])
    for (name,) in cursor.fetchall():
        cursor.execute(f"DROP TRIGGER {name} ON {table}")
    cursor.execute(f"ALTER TABLE {table} RENAME TO {away}")
    cursor.execute(INDEXES, [away])
    for (name,) in cursor.fetchall():
        cursor.execute(f"ALTER INDEX {name} RENAME TO {name}{away.removeprefix(table)}")


def create_table(cursor: Any, table: str, away: str, kind: str) -> None:
    """Create a table like the one that gave it its name, with its key, grants and numbers."""
    cursor.execute(
        f"CREATE TABLE {table} (LIKE {away} INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE) {kind}"
    )
    cursor.execute(f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {BOUND}")
    cursor.execute(f"ALTER TABLE {table} ADD CONSTRAINT {' '.join(KEYS[table])}")
    copy_grants(cursor, away, table)
    if table in NUMBERED:
        move_sequence(cursor, table, away)


def move_sequence(cursor: Any, table: str, away: str) -> None:
    """Continue the numbers of the rows, with a sequence of the same name."""
    cursor.execute("SELECT pg_get_serial_sequence(%s, 'id')", [away])
    [sequence] = cursor.fetchone()
    cursor.execute(f"SELECT last_value + is_called::int FROM {sequence}")
    [following] = cursor.fetchone()
    cursor.execute(f"ALTER SEQUENCE {sequence} RENAME TO {away}_id_seq")
    cursor.execute(
        f"ALTER TABLE {table} ALTER id ADD GENERATED BY DEFAULT AS IDENTITY "
        f"(SEQUENCE NAME {table}_id_seq START WITH {following})"
    )
    copy_grants(cursor, f"{away}_id_seq", f"{table}_id_seq")
    cursor.execute(f"ALTER TABLE {away} ALTER id DROP IDENTITY")


def restore_tables(cursor: Any) -> None:
    """Copy all rows back into whole tables. Blocks everybody for as long as that takes."""
    for table in PARTITIONED:
        away = f"{table}_parts"
        rename_table(cursor, table, away)
        create_table(cursor, table, away, "WITH (autovacuum_vacuum_scale_factor = 0.02)")
        if table == STEP:
            cursor.execute(f"ALTER TABLE {table} ADD CONSTRAINT {table}_pkey PRIMARY KEY (id)")
        if table == EVENT:
            cursor.execute(FEED.format(name="dtr_event_feed", table=table))
        cursor.execute(f"INSERT INTO {table} SELECT * FROM {away}")
        cursor.execute(f"DROP TABLE {away}")
        guard_parent(cursor, table)
    drop_unfinished_copies(cursor)
    restore_tasks(cursor)
    seal(cursor, current_schema(cursor))


def drop_unfinished_copies(cursor: Any) -> None:
    """Drop tables that a dropper of partitions left when it was killed. Those that it attached are gone by now."""
    cursor.execute(COPIES, [[f"{table}_kept_p%" for table in PARTITIONED]])
    for (name,) in cursor.fetchall():
        cursor.execute(f"DROP TABLE {name}")


def restore_tasks(cursor: Any) -> None:
    """Copy archived tasks back, under a lock that lets nobody write. Only the owner of the table may."""
    cursor.execute("SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = %s::regclass", [TASK])
    archives = [name for (name,) in cursor.fetchall()]
    cursor.execute(f"ALTER TABLE {TASK} DISABLE TRIGGER USER")
    for archive in archives:
        cursor.execute(f"INSERT INTO {TASK} SELECT * FROM {archive}")
        cursor.execute(f"DROP TABLE {archive}")
    cursor.execute(f"ALTER TABLE {TASK} ENABLE TRIGGER USER")
    cursor.execute(f"DROP TRIGGER IF EXISTS dtr_guard_known ON {TASK}")
