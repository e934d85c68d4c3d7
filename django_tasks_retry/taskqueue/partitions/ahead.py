"""Partitions ahead of time. Where one cannot be made, nothing stops: rows go to the default partition."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime

from django.db import DatabaseError

from ...clock import now
from ...guard.archive import PARTITIONED
from ..database import fetch
from .layout import Layout
from .periods import Stretch
from .tables import create_tables, short_locks

logger = logging.getLogger("django_tasks_retry")
AHEAD = 3
"""Periods after the present one."""

STRAYS = " UNION ALL ".join(
    f"(SELECT 1 FROM {table}_kept WHERE task_id >= %(first)s AND task_id < %(end)s LIMIT 1)" for table in PARTITIONED
)


def wanted(layout: Layout, moment: datetime) -> Iterator[Stretch]:
    """This period and the next ones, where they have no tables yet."""
    stretch = layout.period.containing(moment)
    latest = max((each.end for each in layout.stretches), default=stretch.start)
    for _ in range(AHEAD + 1):
        if stretch.start >= latest and stretch not in layout.stretches:
            yield stretch
        stretch = stretch.next


def create_ahead(layout: Layout, using: str) -> int:
    """How many were made. Tells why where one was not, and leaves it to the next time."""
    made = 0
    for stretch in list(wanted(layout, now(using))):
        try:
            made += create(stretch, using)
        except DatabaseError as error:
            why = " ".join(str(error).split())[:200]
            logger.warning("history has no partition for %s yet, rows go to the default one: %s", stretch.name, why)
    return made


def create(stretch: Stretch, using: str) -> bool:
    """False where rows of that time lie in the default partition already: these stay there, and are deleted by rows."""
    with short_locks(using) as cursor:
        if has_strays(stretch, using):
            logger.warning("history has no partition for %s: the default one was written to first", stretch.name)
            return False
        create_tables(cursor, stretch)
    return True


def has_strays(stretch: Stretch, using: str) -> bool:
    return bool(fetch(STRAYS, {"first": stretch.first_id, "end": stretch.end_id}, using))
