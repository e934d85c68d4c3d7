"""What is pruned by rows where history is partitioned: the table of tasks, and periods that could not be dropped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from uuid import UUID

from ...clock import now
from ...conf import options
from ...guard.conditions import TASK
from ...rules.status import Status
from ..database import fetch
from .drop import longest_retention, past_stretches
from .layout import Layout, read_layout
from .periods import Stretch

NIL = UUID(int=0)
Page = list[tuple[UUID, str, datetime]]


def parted_pages(
    backend: str, keep: Mapping[Status, float | None], before: datetime, size: int, using: str
) -> Iterator[Page] | None:
    """Tasks in the order of their ids, finished or not; None where history is not partitioned.

    The table of tasks is walked to its end: it is small, and ids may lie in the future.
    """
    layout = read_layout(using)
    if layout is None:
        return None
    return walk_all(by_rows(layout, backend, keep, now(using)), before, size, using)


def walk_all(parted: list[Stretch], before: datetime, size: int, using: str) -> Iterator[Page]:
    yield from walk(f"ONLY {TASK}", size, using)
    for stretch in parted:
        if stretch.start < before:
            yield from walk(f"{TASK}_{stretch.name}", size, using)


def by_rows(layout: Layout, backend: str, keep: Mapping[Status, float | None], moment: datetime) -> list[Stretch]:
    """Periods that hold what this backend keeps for a shorter time than others, and those that could not be dropped."""
    longest, own = longest_retention(layout), keep.get(Status.SUCCESS, options(backend).keep_success)
    is_shorter = own is not None and (longest is None or timedelta(seconds=own) < longest)
    return list(layout.stretches) if is_shorter else past_stretches(layout, moment)


def walk(table: str, size: int, using: str) -> Iterator[Page]:
    sql = f"SELECT id, status, finished_at FROM {table} WHERE id > %s ORDER BY id LIMIT %s"
    page = fetch(sql, [NIL, size], using)
    while page:
        yield page
        page = fetch(sql, [page[-1][0], size], using)
