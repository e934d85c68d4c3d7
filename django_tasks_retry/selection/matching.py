"""The tasks that a query means: by an index or a bounded scan, only from what the user may see, page by page."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from uuid import UUID

from django.db.models import Exists, F, OuterRef, Q
from django.db.models.functions import Right
from django.db.models.lookups import Exact

from .. import clock
from ..clock import Now
from ..models import Task, TaskQuerySet
from ..rules.names import first_of
from ..rules.redact import redact_text
from ..rules.status import Status
from ..taskqueue import statistics
from ..taskqueue.statistics import GroupText, group_heads, group_texts
from .grammar import Query
from .payload import holds_texts, matching_ids

MAX_MESSAGE = 4000  # characters of an error's message that are searched
PAGE = 1000
STRIDE = 50_000  # the number of tasks scanned at a time if no index serves the query and matches may be rare
NOT_INDEXED = {"success", "cancelled"}  # most tasks end so: an index of them would cost every one of them


def has_index(query: Query) -> bool:
    """Return whether all that match can be found at once, however old they are."""
    by_status = bool(query.statuses) and NOT_INDEXED.isdisjoint(query.statuses)
    named = query.ids or query.errors or query.fingerprints or query.runs or query.batches or query.retries_since
    return bool(named or by_status)


def matching(tasks: TaskQuerySet, query: Query, *, can_see_payload: bool, has_status: bool = False) -> TaskQuerySet:
    """Return the tasks that match; candidates for `payload.find_visible` if the query `has_payload`.

    A search for an error means failed tasks, unless another status was chosen.
    """
    if query.problems or (query.has_payload and not can_see_payload):
        return tasks.none()
    tasks = tasks.filter(place_condition(query), id_condition(query.ids), period_condition(query, tasks.db))
    if query.errors:
        found = fingerprints_like(query.errors, tasks.db, can_see_payload=can_see_payload)
        tasks = tasks.filter(fingerprint__in=found)
    if query.has_payload:
        tasks = tasks.filter(holds_texts(query))
    if query.is_not_retried:
        tasks = tasks.filter(~Exists(Task.objects.using(tasks.db).filter(retry_of=OuterRef("pk"))))
    is_about_failures = query.errors or query.fingerprints
    return tasks.failed() if is_about_failures and not (has_status or query.statuses) else tasks


def place_condition(query: Query) -> Q:
    condition = any_of(status_condition(each) for each in query.statuses)
    # A worker or one of its children runs them now, or ended them last.
    running = [Q(status=Status.RUNNING, locked_by__startswith=name) for name in query.workers]
    condition &= any_of(running + [Q(moved_by__startswith=name) for name in query.workers])
    # The task that began a run, which the index leaves out, and all others.
    condition &= any_of(Q(pk=run) | (Q(run_id=run) & ~Q(run_id=F("id"))) for run in query.runs)
    condition &= any_of(name_condition(each) for each in query.tasks)
    wanted: dict[str, Sequence[object]] = {
        "batch": query.batches, "queue": query.queues, "lane": query.lanes, "fingerprint": query.fingerprints,
    }  # fmt: skip
    for column, values in wanted.items():
        condition &= Q(**{f"{column}__in": values}) if values else Q()
    if query.retries_since:
        condition &= Q(retry_of__isnull=False, pk__gt=max(query.retries_since))
    return condition & Q(pk__lt=query.below) if query.below else condition


def any_of(conditions: Iterable[Q]) -> Q:
    """Return conditions joined by OR; an empty list matches everything."""
    return reduce(or_, conditions, Q())


def status_condition(status: str) -> Q:
    """Match a status that people see: PENDING is split by what the task waits for."""
    first, pending = Q(attempts=F("refunds")), Q(status=Status.PENDING)
    waits = Q(waits_for__isnull=False)
    match status.lower():
        case "ready":
            return pending & Q(eta__lte=Now()) & first & ~waits
        case "scheduled":
            return pending & Q(eta__gt=Now()) & first & ~waits
        case "waiting":
            return Q(finished_at=None, locked_by=None) & waits
        case "retrying":
            # The second condition follows from the first; it is said for the sake of the index.
            return Q(status=Status.PENDING) & Q(attempts__gt=F("refunds")) & Q(attempts__gt=0) & ~waits
        case other:
            return Q(status=other.upper())


def id_condition(ranges: Sequence[tuple[UUID, UUID]]) -> Q:
    whole = [first for first, last in ranges if first == last]
    condition = Q(pk__in=whole) if whole else Q()
    for first, last in ranges:
        if first != last:
            condition |= Q(pk__gte=first, pk__lte=last)
    return condition


def period_condition(query: Query, using: str) -> Q:
    """Match by the time of the ids, which is when tasks were enqueued."""
    condition = Q()
    if not (query.since or query.until):
        return condition
    now = clock.now(using)
    for each in query.since:
        condition &= Q(pk__gte=first_id_at(each, now))
    for each in query.until:
        condition &= Q(pk__lt=first_id_at(each, now))
    return condition


def first_id_at(moment: timedelta | datetime, now: datetime) -> UUID:
    try:
        instant = now - moment if isinstance(moment, timedelta) else moment
        return first_of(max(0, int(instant.timestamp() * 1000)))
    except (OverflowError, ValueError):  # longer ago than any calendar knows
        return UUID(int=0)


def name_condition(name: str) -> Q:
    """Match a function by its whole path or its end, also one that this process does not know any more."""
    return Q(func_path=name) | Q(Exact(Right("func_path", len(name) + 1), f".{name}"))


def fingerprints_like(texts: Sequence[str], using: str, *, can_see_payload: bool) -> list[str]:
    """Return fingerprints of failures that contain all texts in what the user may see. One query for all."""
    wanted = [text.lower() for text in texts]
    return [
        group.fingerprint
        for group in group_texts(group_heads(using), using)
        if all(text in visible_text(group, can_see_payload=can_see_payload) for text in wanted)
    ]


def visible_text(group: GroupText, *, can_see_payload: bool) -> str:
    message = redact_text(group.message[:MAX_MESSAGE]) if can_see_payload else ""
    return f"{group.exception} {group.code} {message}".lower()


# All of them, page by page


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
        return statistics.newest_before(STRIDE, using, place)
    return statistics.id_after(STRIDE, using, place)


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
