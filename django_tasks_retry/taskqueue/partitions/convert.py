"""Partition history while the queue works, and the way back.

The tables of results, events and steps, as they are, become the first partition of tables that take their names. That
they hold nothing from a coming instant on is promised by a constraint, which is looked over while everybody works; the
change itself then takes a moment, under locks for which nobody waits long. Each step can be made again after it failed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import OperationalError, connections

from ...clock import now
from ...errors import CannotPartition
from ...guard.archive import PARTITIONED
from ...guard.conditions import TASK
from ...rules.ids import time_of
from ..database import fetch, is_postgresql
from .ahead import create_ahead
from .layout import Layout, read_layout
from .parents import PROMISE, lay_out, make_whole
from .periods import Period, Stretch
from .tables import create_tables, short_locks

MARGIN = timedelta(days=1)
"""How long the promise holds, at least: looking it over takes less."""

TRIES = 60
PAUSE_SECONDS = 1.0
Say = Callable[[str], None]

PROMISED = """
SELECT con.convalidated, pg_get_constraintdef(con.oid)
FROM pg_constraint AS con WHERE con.conrelid = to_regclass(%(table)s) AND con.conname = %(name)s
"""
REFERRING = """
SELECT DISTINCT conrelid::regclass::text FROM pg_constraint WHERE contype = 'f' AND confrelid = to_regclass(%(table)s)
"""


def partition(using: str, period: Period, backends: Sequence[str], say: Say = lambda _: None) -> Layout:
    """Partition the history of this database. Where it is already, tables are made ahead of time."""
    check_possible(using)
    if (layout := read_layout(using)) is not None:
        create_ahead(layout, using)
        return read_layout(using) or layout
    layout = Layout(period, tuple(backends))
    if not insistently(lambda: begin_empty(using, layout), say):
        stretch = promise(using, period, say)
        say("Looking over what is stored. Everybody works on meanwhile.")
        for table in PARTITIONED:
            validate(table, using)
        say("Changing over.")
        insistently(lambda: change_over(using, layout, stretch), say)
    create_ahead(read_layout(using) or layout, using)
    return read_layout(using) or layout


def check_possible(using: str) -> None:
    if not is_postgresql(using):
        raise CannotPartition("History can be partitioned on PostgreSQL only.")
    if tables := [name for (name,) in fetch(REFERRING, {"table": TASK}, using)]:
        raise CannotPartition(
            f"{', '.join(tables)} refer to tasks by a foreign key that the database checks, so tasks cannot move to "
            "other tables. Give these fields db_constraint=False, and migrate."
        )


def insistently(act: Callable[[], Any], say: Say) -> Any:
    """Again and again where locks are not to be had at once: who waits for one holds up all who come after."""
    for left in reversed(range(TRIES)):
        try:
            return act()
        except OperationalError as error:
            if not left or getattr(error.__cause__, "sqlstate", "") not in {"55P03", "40P01"}:
                raise
            say("Somebody else holds a lock. Trying again.")
            time.sleep(PAUSE_SECONDS)
    raise AssertionError("the last try returns or raises")


def begin_empty(using: str, layout: Layout) -> bool:
    """A new queue begins with the present period. False where something is stored already."""
    with short_locks(using) as cursor:
        cursor.execute(f"LOCK TABLE {', '.join(PARTITIONED)} IN ACCESS EXCLUSIVE MODE")
        if any(is_filled(table, cursor) for table in PARTITIONED):
            return False
        lay_out(cursor, layout, None)
        create_tables(cursor, layout.period.containing(now(using)))
    return True


def is_filled(table: str, cursor: Any) -> bool:
    cursor.execute(f"SELECT EXISTS (SELECT 1 FROM {table})")
    return bool(cursor.fetchone()[0])


def promise(using: str, period: Period, say: Say) -> Stretch:
    """The first period that has tables of its own; nothing that is stored comes from it."""
    if (begun := promised_until(using)) is not None:
        first = period.containing(begun)
    else:
        newest = [time_of(found) for table in PARTITIONED if (found := newest_id(table, using))]
        first = period.containing(max([now(using), *newest]) + MARGIN).next
    for table in PARTITIONED:
        if not fetch(PROMISED, {"table": table, "name": PROMISE}, using):
            insistently(lambda table=table: add_promise(table, first, using), say)  # type: ignore[misc]
    say(f"Partitions begin with {first.start:%Y-%m-%d %H:%M} UTC.")
    return first


def newest_id(table: str, using: str) -> UUID | None:
    found: list[tuple[UUID]] = fetch(f"SELECT task_id FROM {table} ORDER BY task_id DESC LIMIT 1", {}, using)
    return found[0][0] if found else None


def add_promise(table: str, first: Stretch, using: str) -> None:
    with short_locks(using) as cursor:
        cursor.execute(f"ALTER TABLE {table} ADD CONSTRAINT {PROMISE} CHECK (task_id < '{first.first_id}') NOT VALID")


def promised_until(using: str) -> datetime | None:
    """Until when a partitioning that was begun and not completed lets rows in."""
    for table in PARTITIONED:
        for _, definition in fetch(PROMISED, {"table": table, "name": PROMISE}, using):
            return time_of(UUID(definition.split("'")[1])).astimezone(UTC)
    return None


def validate(table: str, using: str) -> None:
    if not fetch(PROMISED, {"table": table, "name": PROMISE}, using)[0][0]:
        with connections[using].cursor() as cursor:
            cursor.execute(f"ALTER TABLE {table} VALIDATE CONSTRAINT {PROMISE}")


def take_back_promise(using: str) -> bool:
    """Of a partitioning that nobody completes: soon it would refuse new rows."""
    taken = False
    for table in PARTITIONED:
        if fetch(PROMISED, {"table": table, "name": PROMISE}, using) and read_layout(using) is None:
            with short_locks(using) as cursor:
                cursor.execute(f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {PROMISE}")
            taken = True
    return taken


def change_over(using: str, layout: Layout, first: Stretch) -> None:
    with short_locks(using) as cursor:
        cursor.execute(f"LOCK TABLE {', '.join(PARTITIONED)} IN ACCESS EXCLUSIVE MODE")
        lay_out(cursor, layout, first)
        create_tables(cursor, first)


def unpartition(using: str, say: Say = lambda _: None) -> bool:
    """The way back: the tables as they were, with all that they hold. False where history is not partitioned."""
    if take_back_promise(using) or read_layout(using) is None:
        return False
    insistently(lambda: bring_together(using), say)
    return True


def bring_together(using: str) -> None:
    with short_locks(using) as cursor:
        cursor.execute(f"LOCK TABLE {TASK}, {', '.join(PARTITIONED)} IN ACCESS EXCLUSIVE MODE")
        make_whole(cursor)
