"""All tasks that a query means, page by page: as many as there are, with memory for one page."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from django.db.models import Q

from ..models import Task
from ..models.querysets import TaskQuerySet
from ..taskqueue.statistics import summaries
from .grammar import Query
from .matching import has_index, matching
from .payload import matching_ids

PAGE = 1000
STRIDE = 50_000
"""The number of tasks scanned at a time if no index serves the query and matches may be rare."""


def walk(
    query: Query,
    using: str,
    *,
    condition: Q | None = None,
    until: UUID | None = None,
    newest_first: bool = False,
    size: int | None = None,
) -> Iterator[list[UUID]]:
    """Yield pages of ids in order; a page is empty if nothing matched yet."""
    tasks = matching(Task.objects.using(using), query, can_see_payload=True).filter(condition or Q())
    tasks = tasks.order_by("-pk" if newest_first else "pk")
    if until is not None:
        tasks = tasks.filter(pk__lte=until)
    size, place, bound, is_passed = size or PAGE, None, None, True
    while True:
        if is_passed and not has_index(query):
            bound = edge(place, using, newest_first=newest_first)
        ids, place = next_page(tasks, size, place, bound, newest_first=newest_first)
        yield visible(ids, query, using)
        if place is None:
            return
        is_passed = len(ids) < size


def next_page(
    tasks: TaskQuerySet, size: int, place: UUID | None, bound: UUID | None, *, newest_first: bool = False
) -> tuple[list[UUID], UUID | None]:
    """Return the ids after `place`, up to `bound`, and the last id that was passed; None if that was the end."""
    ids = list(between(tasks, place, bound, newest_first=newest_first).values_list("pk", flat=True)[:size])
    return ids, ids[-1] if len(ids) == size else bound


def edge(place: UUID | None, using: str, *, newest_first: bool = False) -> UUID | None:
    """Return the last id of the next stride, or None for the last stride."""
    if newest_first:
        return summaries.newest_before(STRIDE, using, place)
    return summaries.id_after(STRIDE, using, place)


def between(tasks: TaskQuerySet, place: UUID | None, bound: UUID | None, *, newest_first: bool) -> TaskQuerySet:
    beyond, up_to = ("pk__lt", "pk__gte") if newest_first else ("pk__gt", "pk__lte")
    if place is not None:
        tasks = tasks.filter(**{beyond: place})
    return tasks if bound is None else tasks.filter(**{up_to: bound})


def visible(ids: list[UUID], query: Query, using: str) -> list[UUID]:
    """Leave out tasks that hold the text of a search only in places that nobody may see."""
    if not query.has_payload:
        return ids
    found = matching_ids(ids, query, using)
    return [task_id for task_id in ids if task_id in found]
