"""Retention: drop partitions whose tasks are all past it, and find the rest to be pruned row by row.

An archive holds only tasks that succeeded by the end of the period after its own, so its age is known without reading
its rows. Tasks that were not archived (unfinished, failed, cancelled, late) lose nothing: `carry` copies their results,
events and steps first.
"""

import logging
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import DatabaseError

from ...clock import now
from ...conf import configured_backends, options
from ...guard.conditions import PARTITIONED, RESULT, TASK
from ...rules.names import NIL
from ...rules.status import Status
from ..database import fetch
from ..engines.statements import read_sql
from . import carry
from .archive import Archive
from .export import PeriodExport
from .layout import Layout, Partition, read_layout, tables_of
from .payload_files import delete_with_tasks, files_in_archive
from .premake import missing_partitions, short_locks

logger = logging.getLogger("django_tasks_retry")
OVERDUE = timedelta(hours=2)
"""Workers prune every hour. A period that is past its retention for longer is held by something."""

NEEDED = read_sql("needed_members")
ESTIMATE = "SELECT reltuples::bigint FROM pg_class WHERE oid = to_regclass(%(table)s)"
SIZES = """
SELECT COALESCE(sum(pg_total_relation_size(oid)), 0)::bigint,
    COALESCE(max(reltuples) FILTER (WHERE relname = %(archive)s), 0)::bigint
FROM pg_class
WHERE relnamespace = quote_ident(current_schema())::regnamespace AND relname = ANY (%(tables)s)
"""
Page = list[tuple[UUID, str, datetime]]


def longest_retention(layout: Layout) -> timedelta | None:
    """Return the longest KEEP_SUCCESS of all backends; None if one keeps tasks for ever, or TASKS does not name it."""
    if not set(layout.backends) <= set(configured_backends()):
        return None
    kept = [options(backend).keep_success for backend in layout.backends]
    return None if None in kept else timedelta(seconds=max(seconds for seconds in kept if seconds is not None))


def past_partitions(layout: Layout, moment: datetime) -> list[Partition]:
    """Return partitions that hold nothing within its retention, the oldest first."""
    kept = longest_retention(layout)
    if kept is None:
        return []
    return [partition for partition in layout.partitions if partition.end + partition.period.length + kept <= moment]


def drop_past(layout: Layout, using: str, export: Archive | None = None) -> Iterator[int]:
    """Drop past partitions, and yield about how many tasks each held. One that fails is left to the next call.

    With an export, no partition is dropped before it is written; yields 0 after each page of that.
    """
    for partition in past_partitions(layout, now(using)):
        try:
            yield from drop_period(partition, layout, using, export)
        except (DatabaseError, OSError) as error:
            log_not_dropped(partition, error)
            yield 0
    yield from dissolve_small(using)


def log_not_dropped(partition: Partition, error: Exception) -> None:
    logger.warning("history of %s is not dropped yet: %s", partition.name, " ".join(str(error).split())[:200])


def drop_period(partition: Partition, layout: Layout, using: str, archive: Archive | None) -> Iterator[int]:
    """Export, copy and drop it, unless one of its members is needed."""
    if needed_member(partition, using):
        return
    export = PeriodExport(partition, archive, using) if archive else None
    if export is not None:
        yield from export_whole(export)
    copy = None if carry.has_few_unarchived(partition, using) else (yield from carry.copy_pages(partition, using))
    # Copying may take minutes, in which a task may have been retried.
    if copy is None or not needed_member(partition, using):
        files = files_in_archive(partition, layout.backends, using, archive)
        yield drop(partition, using, export, copy)
        delete_with_tasks(files, using)


def dissolve_small(using: str) -> Iterator[int]:
    for partition in carry.kept_partitions(using):
        try:
            if carry.has_few_unarchived(partition, using):
                carry.dissolve(partition, using)
                yield 0
        except DatabaseError as error:
            log_not_dropped(partition, error)


def export_whole(export: PeriodExport) -> Iterator[int]:
    """Write the period, unless a file holds all of it."""
    export.rows = export.count()
    if export.rows and not export.is_whole(export.rows):
        export.rows = 0
        yield from (0 for _ in export.pages())


def needed_member(partition: Partition, using: str) -> UUID | None:
    """Return a member of a batch whose result an unfinished task may still read."""
    found: list[tuple[UUID]] = fetch(NEEDED.format(archive=partition.archive), {}, using)
    return found[0][0] if found else None


def drop(partition: Partition, using: str, export: PeriodExport | None = None, copy: carry.Copy | None = None) -> int:
    """Drop the tables of a period. A copy takes their place; without one, few tasks are carried over."""
    [[held]] = fetch(ESTIMATE, {"table": partition.archive}, using)
    with short_locks(using) as cursor:
        carry.lock_archive(cursor, partition)
        if export is not None and (rows := export.count()) != export.rows:
            raise OSError(f"{export.rows} of its {rows} tasks are exported")
        if copy is not None:
            carry.catch_up(cursor, copy)
        cursor.execute(f"LOCK TABLE {', '.join(PARTITIONED)} IN ACCESS EXCLUSIVE MODE")
        for table in PARTITIONED:
            cursor.execute(f"ALTER TABLE {table} DETACH PARTITION {table}_{partition.name}")
            if copy is None:
                carry.carry_over(cursor, table, f"{table}_{partition.name}", partition)
        cursor.execute(f"DROP TABLE {', '.join(tables_of(partition))}")
        if copy is not None:
            carry.attach_copy(cursor, copy)
    logger.info("dropped the history of %s: about %d tasks", partition.name, max(held, 0))
    return max(int(held), 0)


def row_pages(
    backend: str, keep: Mapping[Status, float | None], before: datetime, size: int, using: str
) -> Iterator[Page] | None:
    """Return pages of tasks in the order of their ids, finished or not; None if history is not partitioned.

    The table of tasks is read to its end: it is small, and ids may lie in the future.
    """
    layout = read_layout(using)
    if layout is None:
        return None
    return walk_tables(pruned_by_rows(layout, backend, keep, now(using)), before, size, using)


def walk_tables(partitions: list[Partition], before: datetime, size: int, using: str) -> Iterator[Page]:
    yield from walk(f"ONLY {TASK}", size, using)
    for partition in partitions:
        if partition.start < before:
            yield from walk(partition.archive, size, using)


def pruned_by_rows(
    layout: Layout, backend: str, keep: Mapping[Status, float | None], moment: datetime
) -> list[Partition]:
    """Return partitions with tasks that this backend keeps for a shorter time than others, and those not dropped."""
    longest, own = longest_retention(layout), keep.get(Status.SUCCESS, options(backend).keep_success)
    is_shorter = own is not None and (longest is None or timedelta(seconds=own) < longest)
    return list(layout.partitions) if is_shorter else past_partitions(layout, moment)


def walk(table: str, size: int, using: str) -> Iterator[Page]:
    sql = f"SELECT id, status, finished_at FROM {table} WHERE id > %s ORDER BY id LIMIT %s"
    page = fetch(sql, [NIL, size], using)
    while page:
        yield page
        page = fetch(sql, [page[-1][0], size], using)


def partition_summaries(using: str) -> list[dict[str, Any]]:
    layout = read_layout(using)
    return [summary(partition, layout, using) for partition in layout.partitions] if layout else []


def summary(partition: Partition, layout: Layout, using: str) -> dict[str, Any]:
    asked = {"archive": partition.archive, "tables": list(tables_of(partition))}
    [[size, tasks]] = fetch(SIZES, asked, using)
    kept = longest_retention(layout)
    return {
        "name": partition.name,
        "from": partition.start,
        "until": partition.end,
        "tasks": max(tasks, 0),
        "bytes": size,
        "dropped_from": None if kept is None else partition.end + partition.period.length + kept,
    }


def partition_problems(using: str) -> list[str]:
    """Return sentences for operators; none if history is not partitioned, or all is well."""
    layout = read_layout(using)
    if layout is None:
        return []
    problems = []
    if held := past_partitions(layout, now(using) - OVERDUE):
        problems.append(why_held(held, using))
    if longest_retention(layout) is None:
        problems.append(
            f"No period is ever dropped: KEEP_SUCCESS of one of the backends {', '.join(layout.backends)} is None, or "
            "TASKS does not name it."
        )
    moment = now(using)
    soon = moment + layout.period.length
    late = [partition.name for partition in missing_partitions(layout, moment) if partition.start <= soon]
    if late:
        problems.append(
            f"There is no partition for {', '.join(late)}: rows go to {RESULT}_kept and its like. Workers that own the "
            "tables create partitions ahead; by hand: python manage.py tasks partitions create"
        )
    return problems


def why_held(held: list[Partition], using: str) -> str:
    """Name the oldest period that should be gone, what keeps it, and how many others wait."""
    others = f" {len(held) - 1} later periods wait, too." if len(held) > 1 else ""
    if member := needed_member(held[0], using):
        why = f"an unfinished task may still read the result of {member}, a member of its batch. Finish or cancel it."
    else:
        why = "no worker has dropped it. If one runs, the warnings in its log say why."
    return f"The period {held[0].name} is past its retention and is not dropped: {why}{others}"
