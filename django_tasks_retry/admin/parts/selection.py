"""The tasks that an operator selected, signed: the list's filters, or a few ids; never thousands of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core import signing
from django.db.models import Exists, OuterRef
from django.http import HttpRequest, QueryDict
from django.utils.translation import gettext as _

from ...display.events import group_text
from ...display.formatting import one_line
from ...display.scope import console_database
from ...models import Task, TaskQuerySet
from ...rules.status import Status
from ...selection import matching
from ...selection.grammar import Query, parse_search
from ...taskqueue import Canary, statistics
from ...taskqueue.new_tasks import new_id
from ...taskqueue.statistics import paused_queues
from . import filters

SALT = "django_tasks_retry.admin.selection"
MAX_AGE = 3600
DRY_RUN_LIMIT = 10_000
LAST_ID = str(UUID(int=2**128 - 1))


@dataclass(frozen=True, slots=True)
class Selection:
    """Tasks up to the id `until`, so that later ones are not affected; `after` is the last id that was processed.

    `since` is the oldest id that the list read if no index serves its filters; the action starts at the first task.
    """

    action: str
    user: str
    until: str
    since: str | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    sees_payload: bool = False  # whether a search for an error may look at messages, as it did in the list
    ids: tuple[str, ...] | None = None
    after: str | None = None
    done: int = 0
    skipped: int = 0
    paused: tuple[str, ...] = ()  # paused queues that tasks were changed in: they will not run yet
    begun: str = ""  # an id from before the first task was changed: that of each new task is higher
    start: str = ""
    step: float = 0.0
    """The eta of the first task and the seconds between two tasks, for an action that is spread over time."""

    proposal: int = 0  # the number of the proposal that this confirms
    canaries: int = 0
    enough: float = 0.0  # how many tasks go first, and which share of them must succeed

    def sign(self) -> str:
        return signing.dumps(asdict(self), salt=SALT, compress=True)

    def remaining(self, using: str) -> TaskQuerySet:
        """Return the unprocessed tasks, in the order of their ids."""
        tasks: TaskQuerySet = Task.objects.using(using).filter(pk__lte=UUID(self.until)).order_by("pk")
        if self.ids is None:
            tasks = filters.apply_filters(tasks, self.params, can_see_payload=self.sees_payload)
        else:
            tasks = tasks.filter(pk__in=self.ids)
        return tasks if self.after is None else tasks.filter(pk__gt=UUID(self.after))

    def next_batch(self, size: int, using: str) -> tuple[list[UUID], UUID | None]:
        """Return the next tasks, and the last id that was read; None at the end."""
        bound = matching.edge(UUID(self.after) if self.after else None, using) if self.since is not None else None
        ids, reached = matching.next_page(self.remaining(using), size, None, bound)
        return matching.visible(ids, self.query, using), reached

    @property
    def query(self) -> Query:
        """Return the search among the filters; ticked rows have none."""
        return parse_search("" if self.ids is not None else self.params.get("q", ""))

    def spread(self, start: datetime, seconds: float, count: int) -> Selection:
        """Return the selection with tasks due evenly over these seconds; tasks beyond the count keep the pace."""
        return replace(self, start=start.isoformat(), step=seconds / max(count, 1))

    def due(self) -> dict[str, Any]:
        """Return the service layer's options for the due times of the next batch; none if due at once."""
        if not self.start:
            return {}
        step, start = timedelta(seconds=self.step), datetime.fromisoformat(self.start)
        due: dict[str, Any] = {"eta": start + (self.done + self.skipped) * step, "step": step}
        if self.canaries:
            due["canary"] = Canary(UUID(self.begun), self.canaries, self.enough, start).after(self.done)
        return due

    def advanced(self, reached: UUID | None, done: int, skipped: int, paused: Iterable[str] = ()) -> Selection:
        after = self.after if reached is None else str(reached)
        queues = tuple(sorted({*self.paused, *paused}))
        return replace(self, after=after, done=self.done + done, skipped=self.skipped + skipped, paused=queues)


class InvalidSelection(Exception):
    """The selection was not signed by this console for this user, or is too old."""


def load_selection(token: str, user: Any) -> Selection:
    try:
        selection = Selection(**signing.loads(token, salt=SALT, max_age=MAX_AGE))
    except (signing.BadSignature, TypeError) as error:  # TypeError: an older release signed it
        raise InvalidSelection from error
    if selection.user != str(user.pk):
        raise InvalidSelection
    return replace(selection, paused=tuple(selection.paused))


@dataclass(frozen=True, slots=True)
class DryRun:
    """The number of selected tasks that the action would change. Each is checked again when it is changed.

    `succeeded` counts tasks among them that did their work, `retried` those that were retried before.
    """

    possible: int
    skipped: int
    is_capped: bool
    is_partial: bool
    succeeded: int = 0
    retried: int = 0
    paused: frozenset[str] = frozenset()  # the paused queues of these tasks

    @property
    def is_exact(self) -> bool:
        return not (self.is_capped or self.is_partial)


def dry_run(selection: Selection, statuses: tuple[Status, ...], using: str) -> DryRun:
    tasks = selection.remaining(using)
    if selection.since is not None:
        tasks = tasks.filter(pk__gte=UUID(selection.since))
    again = Exists(Task.objects.using(using).filter(retry_of=OuterRef("pk")))
    limit = filters.MAX_CANDIDATES if selection.query.has_payload else DRY_RUN_LIMIT
    found = list(tasks.values_list("pk", "status", again, "queue")[: limit + 1])
    visible = set(matching.visible([pk for pk, *_rest in found], selection.query, using))
    rows = [row for pk, *row in found if pk in visible]
    counted = [row for row in rows[:limit] if row[0] in statuses]
    return DryRun(
        possible=len(counted),
        skipped=min(len(rows), limit) - len(counted),
        is_capped=len(found) > limit,
        is_partial=selection.since is not None,
        succeeded=sum(status == Status.SUCCESS for status, _is_retried, _queue in counted),
        retried=sum(is_retried for _status, is_retried, _queue in counted),
        paused=frozenset(queue for _status, _is_retried, queue in counted) & paused_queues(using).keys(),
    )


def paused_queues_of(ids: Sequence[UUID], using: str) -> set[str]:
    paused = paused_queues(using)
    tasks = Task.objects.using(using).filter(pk__in=ids, queue__in=list(paused))
    return set(tasks.values_list("queue", flat=True)) if paused and ids else set()


def count_selected(selection: Selection, expected: DryRun, using: str) -> int:
    """Return the number of tasks that a retry is spread over: counted while that is cheap, then estimated."""
    if expected.is_exact:
        return expected.possible
    count = selection.remaining(using).values("pk")[: statistics.COUNTED + 1].count()
    if count <= statistics.COUNTED:
        return count
    return max(count, statistics.estimate_groups(using).get(selection.params.get("fingerprint", ""), 0))


def with_valid_selection(posted: QueryDict) -> Any:
    """Drop invalid ids. Add an empty one for "all matching": Django runs no action without a ticked row."""
    ids = [each for each in posted.getlist(ACTION_CHECKBOX_NAME) if filters.parse_uuid(each)]
    valid = posted.copy()
    valid.setlist(ACTION_CHECKBOX_NAME, ids or ([""] if posted.get("select_across") == "1" else []))
    return valid


def selection_from_request(
    request: HttpRequest, action: str, params: Mapping[str, str], floor: UUID | None, *, sees_payload: bool
) -> Selection:
    """Return the rows ticked in the list, or its filters for "all matching"."""
    user: Any = request.user
    if request.POST.get("select_across") == "1":
        return replace(select_all(action, user, params, floor), sees_payload=sees_payload)
    ids = [each for each in request.POST.getlist(ACTION_CHECKBOX_NAME) if filters.parse_uuid(each)]
    return Selection(action, str(user.pk), LAST_ID, params=params, ids=tuple(ids))


def select_all(action: str, user: Any, params: Mapping[str, str], floor: UUID | None = None) -> Selection:
    """Select all tasks that match now. Tasks enqueued later are not affected."""
    return Selection(action, str(user.pk), str(new_id()), since=str(floor) if floor else None, params=params)


def describe_filters(selection: Selection, *, can_see_payload: bool) -> list[tuple[str, str]]:
    """Return title and value of each filter of the list. The error names a group of failures."""
    titles = {name: str(title) for name, title in filters.TITLES.items()} | {"q": _("search")}
    if selection.ids is not None:
        return []
    params = dict(selection.params)
    if "fingerprint" in params:
        using = console_database()
        params["fingerprint"] = group_text(params["fingerprint"], using, can_see_payload=can_see_payload)
    if "retried" in params:
        params["retried"] = _("Not yet")
    return [(titles.get(name, name), one_line(value, 240)) for name, value in params.items()]
