"""Drop: a period whose tasks are all past their retention goes as a whole.

Its table of tasks holds only what succeeded by the end of the period after it, so its age is known without a look at
its rows. Of what is still in the table of tasks (unfinished, failed, cancelled, late) nothing is lost: its results,
events and steps are carried over to the default partitions first.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.db import DatabaseError

from ...clock import now
from ...conf import configured_backends, options
from ...guard.archive import PARTITIONED
from ...guard.conditions import TASK
from ..database import fetch
from ..engines.statements import read_sql
from ..operator.export import Export
from .export import export_pages
from .layout import Layout, tables_of
from .periods import Stretch
from .tables import short_locks

logger = logging.getLogger("django_tasks_retry")
MOST_CARRIED = 20_000
"""Tasks of one period, whose history is carried over while nobody can write. Of more, it is pruned by rows."""

STILL_HERE = f"""
SELECT count(*) FROM (SELECT FROM ONLY {TASK} WHERE id >= %(first)s AND id < %(end)s LIMIT %(most)s) AS t
"""
NEEDED = read_sql("needed_members", archive="{archive}")
HELD = "SELECT reltuples::bigint FROM pg_class WHERE oid = to_regclass(%(table)s)"


def longest_retention(layout: Layout) -> timedelta | None:
    """Of what has succeeded, over all backends whose tasks lie here; None where one of them keeps it for ever.

    Of a backend that TASKS does not name nobody knows.
    """
    if not set(layout.backends) <= set(configured_backends()):
        return None
    kept = [options(backend).keep_success for backend in layout.backends]
    return None if None in kept else timedelta(seconds=max(seconds for seconds in kept if seconds is not None))


def past_stretches(layout: Layout, moment: datetime) -> list[Stretch]:
    """Periods in which nothing is within its retention any more, the oldest first."""
    kept = longest_retention(layout)
    if kept is None:
        return []
    return [stretch for stretch in layout.stretches if stretch.end + stretch.period.length + kept <= moment]


def drop_past(layout: Layout, using: str, export: Export | None = None) -> Iterator[int]:
    """About how many tasks went with each period. One that cannot go now is left to the next time.

    With an export none goes before all of it is written; 0 after each page of that.
    """
    for stretch in past_stretches(layout, now(using)):
        try:
            if is_free(stretch, using):
                if export is not None:
                    yield from (0 for _ in export_pages(stretch, export, using))
                yield drop(stretch, using)
        except (DatabaseError, OSError, ImportError) as error:
            logger.warning("history of %s is not dropped yet: %s", stretch.name, " ".join(str(error).split())[:200])
            yield 0


def is_free(stretch: Stretch, using: str) -> bool:
    """Whether nothing but the history of a few tasks is still needed."""
    return count_here(stretch, using) <= MOST_CARRIED and not has_needed_members(stretch, using)


def count_here(stretch: Stretch, using: str) -> int:
    asked = {"first": stretch.first_id, "end": stretch.end_id, "most": MOST_CARRIED + 1}
    return int(fetch(STILL_HERE, asked, using)[0][0])


def has_needed_members(stretch: Stretch, using: str) -> bool:
    return bool(fetch(NEEDED.format(archive=f"{TASK}_{stretch.name}"), {}, using))


def drop(stretch: Stretch, using: str) -> int:
    [[held]] = fetch(HELD, {"table": f"{TASK}_{stretch.name}"}, using)
    with short_locks(using) as cursor:
        cursor.execute(f"LOCK TABLE {', '.join(PARTITIONED)} IN ACCESS EXCLUSIVE MODE")
        for table in PARTITIONED:
            cursor.execute(f"ALTER TABLE {table} DETACH PARTITION {table}_{stretch.name}")
            carry_over(cursor, table, stretch)
        cursor.execute(f"DROP TABLE {', '.join(tables_of(stretch))}")
    logger.info("dropped the history of %s: about %d tasks", stretch.name, max(held, 0))
    return max(int(held), 0)


def carry_over(cursor: Any, table: str, stretch: Stretch) -> None:
    """Under the lock that keeps everybody out; the guard would take these rows for a history that is made up."""
    kept, parted = f"{table}_kept", f"{table}_{stretch.name}"
    whose = f"SELECT p.* FROM ONLY {TASK} AS t JOIN {parted} AS p ON p.task_id = t.id WHERE t.id >= %s AND t.id < %s"
    cursor.execute(f"SELECT EXISTS ({whose})", [stretch.first_id, stretch.end_id])
    if cursor.fetchone()[0]:
        cursor.execute(f"ALTER TABLE {kept} DISABLE TRIGGER USER")
        cursor.execute(f"INSERT INTO {kept} {whose}", [stretch.first_id, stretch.end_id])
        cursor.execute(f"ALTER TABLE {kept} ENABLE TRIGGER USER")
