"""The filters and the search box of the task list. Rows come from an index or a bounded look back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import Exists, OuterRef
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ... import registry
from ...display import display_status
from ...display.formatting import one_line
from ...display.scope import current_scope, queue_names
from ...models import Task
from ...models.querysets import TaskQuerySet
from ...rules.ids import first_of
from ...rules.names import short_name
from ...selection import grammar
from ...selection.grammar import Query
from ...selection.matching import NOT_INDEXED, has_index, matching, status_condition
from ...taskqueue.statistics import summaries
from ...taskqueue.statistics.stats import sums_since

LOOK_FURTHER_BACK = 100_000
"""The number of tasks to search if the first look back finds none. The list offers to go on from there."""

WINDOWS = {
    "15m": (timedelta(minutes=15), gettext_lazy("Last 15 minutes")),
    "1h": (timedelta(hours=1), gettext_lazy("Last hour")),
    "24h": (timedelta(days=1), gettext_lazy("Last 24 hours")),
    "7d": (timedelta(days=7), gettext_lazy("Last 7 days")),
}
Choices = list[tuple[str, Any]]
MAX_WORDS = 10
MAX_LENGTH = 400
MAX_CANDIDATES = 2000
"""The number of tasks whose arguments or metadata are read for one page."""


class ConsoleFilter(admin.SimpleListFilter):
    template = "django_tasks_retry/filter.html"

    column = ""

    if TYPE_CHECKING:
        parameter_name: str

    def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
        options, value = self.options(), self.value()
        if value and value not in dict(options):
            options.append((value, one_line(self.label_of(value), 40)))
        return options

    def options(self) -> Choices:
        return []

    def label_of(self, value: str) -> str:
        return value

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        value = self.value()
        return self.apply(queryset, value) if value else queryset

    @classmethod
    def apply(cls, tasks: TaskQuerySet, value: str) -> TaskQuerySet:
        return tasks.filter(**{cls.column: value})

    @classmethod
    def has_index(cls, value: str) -> bool:
        return False


class StatusFilter(ConsoleFilter):
    title = gettext_lazy("status")
    parameter_name = "status"

    def options(self) -> Choices:
        return [(each.name, each.label) for each in display_status.DISPLAY_STATUSES]

    @classmethod
    def apply(cls, tasks: TaskQuerySet, value: str) -> TaskQuerySet:
        return tasks.filter(status_condition(value))

    @classmethod
    def has_index(cls, value: str) -> bool:
        return value.lower() not in NOT_INDEXED


class QueueFilter(ConsoleFilter):
    title = gettext_lazy("queue")
    parameter_name = column = "queue"

    def options(self) -> Choices:
        scope = current_scope()
        busy = sums_since(scope.now - timedelta(days=1), scope.using, "queue")
        return [(name, one_line(name, 40)) for name in queue_names(row["queue"] for row in busy)]


class FunctionFilter(ConsoleFilter):
    title = gettext_lazy("task")
    parameter_name = "task"
    column = "func_path"

    def options(self) -> Choices:
        return [(path, one_line(short_name(path), 40)) for path in registry.known_paths()]


class WindowFilter(ConsoleFilter):
    title = gettext_lazy("time enqueued")
    parameter_name = "window"

    def options(self) -> Choices:
        return [(name, label) for name, (_length, label) in WINDOWS.items()]

    @classmethod
    def apply(cls, tasks: TaskQuerySet, value: str) -> TaskQuerySet:
        return tasks.filter(pk__gte=window_start(value)) if value in WINDOWS else tasks.none()


class OlderFilter(ConsoleFilter):
    """Continue after the last page. Only the pagination links to it."""

    title = gettext_lazy("older than")
    parameter_name = "older"

    @classmethod
    def apply(cls, tasks: TaskQuerySet, value: str) -> TaskQuerySet:
        below = parse_uuid(value)
        return tasks.filter(pk__lt=below) if below else tasks.none()


class FingerprintFilter(ConsoleFilter):
    """One group of failures. Only the page of failures links to it."""

    title = gettext_lazy("failure")
    parameter_name = column = "fingerprint"


class RetriedFilter(ConsoleFilter):
    """Leave out tasks that were retried already. Only the page of failures links to it."""

    title = gettext_lazy("retried")
    parameter_name = "retried"

    def label_of(self, value: str) -> str:
        return _("Not yet")

    @classmethod
    def apply(cls, tasks: TaskQuerySet, value: str) -> TaskQuerySet:
        return tasks.filter(~Exists(Task.objects.using(tasks.db).filter(retry_of=OuterRef("pk"))))


FILTERS: tuple[type[ConsoleFilter], ...] = (
    StatusFilter, QueueFilter, WindowFilter, FunctionFilter, FingerprintFilter, RetriedFilter, OlderFilter,
)  # fmt: skip
PARAMETERS = frozenset({each.parameter_name for each in FILTERS} | {"q"})


def parse_uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def apply_filters(tasks: TaskQuerySet, params: Mapping[str, str], *, can_see_payload: bool) -> TaskQuerySet:
    """Return the tasks that the list shows for these parameters to a user who may, or may not, see payloads."""
    for each in FILTERS:
        if value := params.get(each.parameter_name):
            tasks = each.apply(tasks, value)
    parsed = parse_search(params.get("q", ""))
    return matching(tasks, parsed, has_status="status" in params, can_see_payload=can_see_payload)


def look_back_floor(params: Mapping[str, str], using: str, limit: int | None = None) -> UUID | None:
    """Return the oldest id to read if no index serves the filters; None if all matches can be found."""
    active = {each for each in FILTERS if params.get(each.parameter_name)}
    parsed = parse_search(params.get("q", ""))
    if has_index(parsed) or any(each.has_index(params[each.parameter_name]) for each in active):
        return None
    if parsed.is_only_a_period and active <= {WindowFilter, OlderFilter}:
        return None
    floor = summaries.newest_before(limit or summaries.LOOK_BACK, using, parse_uuid(params.get("older", "")))
    return None if floor and floor <= window_start(params.get("window", "")) else floor


def window_start(window: str) -> UUID:
    """Return the first id of a window; without a window, the first of all."""
    if window not in WINDOWS:
        return UUID(int=0)
    since = current_scope().now - WINDOWS[window][0]
    return first_of(int(since.timestamp() * 1000))


def filter_params(changelist: ChangeList) -> dict[str, str]:
    """Return the list's parameters in the shape that `apply_filters` takes."""
    given = changelist.get_filters_params()
    names = [each.parameter_name for each in FILTERS]
    values = {name: given[name][-1] for name in names if given.get(name)}
    return values | ({"q": changelist.query} if changelist.query else {})


def parse_search(text: str) -> Query:
    if len(text) <= MAX_LENGTH:
        query = grammar.parse(text)
        if query.words <= MAX_WORDS:
            return query
    values = {"words": MAX_WORDS, "length": MAX_LENGTH}
    return Query(problems=[_("Search for at most %(words)s words and %(length)s characters.") % values], words=1)


def search_problems(query: Query, *, can_see_payload: bool) -> list[str]:
    """Say why a search finds nothing, and what to type instead."""
    if query.has_payload and not can_see_payload:
        return [*query.problems, _("You may not see arguments and metadata, so you cannot search in them.")]
    return query.problems
