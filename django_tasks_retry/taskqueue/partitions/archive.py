"""Archive: move what has succeeded out of the table of tasks, page by page, into the table of its period."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import UUID

from django.db import transaction

from ...guard.conditions import TASK
from ...models import Task
from ..database import cursor_on, fetch
from ..engines.statements import read_sql
from .layout import Layout
from .periods import Stretch

PAGE = 5000
SETTLED_SECONDS = 10.0
"""After its end a task is left where it is for so long: whoever waited for a lock on it finds it there."""

END_OF_PAGE = f"""
SELECT page.id
FROM (
    SELECT id FROM ONLY {TASK} WHERE id >= %(first)s AND id > %(after)s AND id < %(end)s ORDER BY id LIMIT %(size)s
) AS page
ORDER BY page.id DESC
LIMIT 1
"""
NIL = UUID(int=0)


COLUMNS = ", ".join(str(field.column) for field in Task._meta.concrete_fields)
ARCHIVE, LEAVE = read_sql("archive", columns=COLUMNS, archive="{archive}"), read_sql("leave", archive="{archive}")


def archive_pages(layout: Layout, using: str, size: int = PAGE) -> Iterator[int]:
    """How many were moved of each page of tasks, once through the table."""
    for stretch in layout.stretches:
        after = NIL
        while until := end_of_page(stretch, after, size, using):
            yield move(stretch, (after, until), layout.backends, using)
            after = until


def end_of_page(stretch: Stretch, after: UUID, size: int, using: str) -> UUID | None:
    asked = {"first": stretch.first_id, "end": stretch.end_id, "after": after, "size": size}
    found: list[tuple[UUID]] = fetch(END_OF_PAGE, asked, using)
    return found[0][0] if found else None


def move(stretch: Stretch, page: tuple[UUID, UUID], backends: Sequence[str], using: str) -> int:
    """Of this period's tasks after the one and up to the other, those that ended in time and nobody keeps locked."""
    asked = {
        "first": stretch.first_id,
        "after": page[0],
        "until": page[1],
        "settled": SETTLED_SECONDS,
        "late": stretch.end + stretch.period.length,
        "backends": list(backends),
    }
    archive = f"{TASK}_{stretch.name}"
    with transaction.atomic(using=using), cursor_on(using) as cursor:
        cursor.execute(ARCHIVE.format(archive=archive), asked)
        moved: int = cursor.rowcount
        if moved:
            cursor.execute(LEAVE.format(archive=archive), asked)
    return moved
