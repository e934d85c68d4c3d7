"""Upkeep of a partitioned history, by the worker that prunes: tables ahead of time, what has succeeded moved there."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta

from django.db import DatabaseError

from ...clock import now
from ..database import database, is_postgresql
from .ahead import create_ahead
from .archive import archive_pages
from .convert import promised_until, take_back_promise
from .layout import read_layout

logger = logging.getLogger("django_tasks_retry")
TOO_CLOSE = timedelta(hours=6)


def keep_up(backend: str = "default") -> Iterator[int]:
    """How many tasks were moved, page by page. Whatever cannot be done is told, and holds up nothing."""
    using = database(backend)
    if not is_postgresql(using):
        return
    layout = read_layout(using)
    if layout is None:
        end_what_nobody_completes(using)
        return
    if create_ahead(layout, using):
        layout = read_layout(using) or layout
    try:
        yield from archive_pages(layout, using)
    except DatabaseError as error:
        if not is_refused(error):
            raise
        logger.warning("finished tasks stay in the table of tasks: %s", " ".join(str(error).split())[:200])


def is_refused(error: DatabaseError) -> bool:
    """Of rights or of the guard, which another try would not change. The rest is for whoever calls the database."""
    return getattr(error.__cause__, "sqlstate", "") in {"42501", "23514", "23505"}


def end_what_nobody_completes(using: str) -> None:
    until = promised_until(using)
    if until is not None and until - now(using) < TOO_CLOSE and take_back_promise(using):
        logger.warning("partitioning was begun and not completed: taken back, or new rows would soon be refused")
