"""Maintain a partitioned history: create partitions, and archive tasks that succeeded. The pruning worker runs it."""

import logging
from collections.abc import Iterator, Sequence
from datetime import timedelta
from uuid import UUID

from django.db import DatabaseError, transaction

from ...clock import now
from ...guard.conditions import TASK
from ...rules.names import NIL
from ..database import cursor_on, database, fetch
from ..engines import engine_for
from ..engines.statements import read_sql
from .convert import bound_until, drop_bound
from .layout import Layout, Partition, read_layout
from .premake import premake

logger = logging.getLogger("django_tasks_retry")
TOO_CLOSE = timedelta(hours=6)
PAGE = 5000
SETTLED_SECONDS = 10.0
"""A task stays in its table for so long after its end, so that a statement that waited for its lock finds it."""

END_OF_PAGE = f"""
SELECT page.id
FROM (
    SELECT id FROM ONLY {TASK} WHERE id >= %(first)s AND id > %(after)s AND id < %(end)s ORDER BY id LIMIT %(size)s
) AS page
ORDER BY page.id DESC
LIMIT 1
"""
ARCHIVE, DELETE_ARCHIVED = read_sql("archive"), read_sql("delete_archived")


def maintain_partitions(backend: str = "default") -> Iterator[int]:
    """Yield how many tasks were archived, page by page. Failures are logged and stop nothing else."""
    using = database(backend)
    if not engine_for(using).can_partition:
        return
    layout = read_layout(using)
    if layout is None:
        drop_abandoned_bound(using)
        return
    if premake(layout, using):
        layout = read_layout(using) or layout
    try:
        yield from archive_pages(layout, using)
    except DatabaseError as error:
        if not is_refused(error):
            raise
        logger.warning("finished tasks stay in the table of tasks: %s", " ".join(str(error).split())[:200])


def is_refused(error: DatabaseError) -> bool:
    """Whether rights or the guard forbid it, so that a retry is useless. The caller handles all other errors."""
    return getattr(error.__cause__, "sqlstate", "") in {"42501", "23514", "23505"}


def drop_abandoned_bound(using: str) -> None:
    until = bound_until(using)
    if until is not None and until - now(using) < TOO_CLOSE and drop_bound(using):
        logger.warning("partitioning was begun and not completed: taken back, or new rows would soon be refused")


def archive_pages(layout: Layout, using: str, size: int = PAGE) -> Iterator[int]:
    """Yield how many tasks of each page were archived, once through the table."""
    for partition in layout.partitions:
        after = NIL
        while until := end_of_page(partition, after, size, using):
            yield archive_page(partition, (after, until), layout.backends, using)
            after = until


def end_of_page(partition: Partition, after: UUID, size: int, using: str) -> UUID | None:
    asked = {"first": partition.first_id, "end": partition.end_id, "after": after, "size": size}
    found: list[tuple[UUID]] = fetch(END_OF_PAGE, asked, using)
    return found[0][0] if found else None


def archive_page(partition: Partition, page: tuple[UUID, UUID], backends: Sequence[str], using: str) -> int:
    """Archive tasks of this page that ended in time and are not locked."""
    asked = {
        "first": partition.first_id,
        "after": page[0],
        "until": page[1],
        "settled": SETTLED_SECONDS,
        "late": partition.end + partition.period.length,
        "backends": list(backends),
    }
    archive = partition.archive
    with transaction.atomic(using=using), cursor_on(using) as cursor:
        cursor.execute(ARCHIVE.format(archive=archive), asked)
        moved: int = cursor.rowcount
        if moved:
            cursor.execute(DELETE_ARCHIVED.format(archive=archive), asked)
    return moved
