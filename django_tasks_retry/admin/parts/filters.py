"""The filters and the search box of the task list. Rows come from an index or a bounded look back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ... import registry
from ...display.formatting import one_line
from ...display.scope import current_scope, queue_names
from ...display.states import TASK_STATES
from ...models.querysets import TaskQuerySet
from ...rules.names import short_name
from ...selection import grammar
from ...selection.grammar import Query
from ...selection.matching import first_id_at, has_index, matching
from ...taskqueue import statistics

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
    """Offer values for a parameter, which `filter_query` reads."""

    template = "django_tasks_retry/filter.html"

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
        query = filter_query({self.parameter_name: self.value() or ""})
        return matching(queryset, query, can_see_payload=False, has_status="status" in request.GET)


class StatusFilter(ConsoleFilter):
    title = gettext_lazy("status")
    parameter_name = "status"

    def options(self) -> Choices:
        return [(each.name, each.label) for each in TASK_STATES]


class QueueFilter(ConsoleFilter):
    title = gettext_lazy("queue")
    parameter_name = "queue"

    def options(self) -> Choices:
        return [(name, one_line(name, 40)) for name in queue_names(current_scope())]


class FunctionFilter(ConsoleFilter):
    title = gettext_lazy("task")
    parameter_name = "task"

    def options(self) -> Choices:
        return [(path, one_line(short_name(path), 40)) for path in registry.project_paths()]


class WindowFilter(ConsoleFilter):
    title = gettext_lazy("time enqueued")
    parameter_name = "window"

    def options(self) -> Choices:
        return [(name, label) for name, (_length, label) in WINDOWS.items()]


class OlderFilter(ConsoleFilter):
    """Continue after the last page. Only the pagination links to it."""

    title = gettext_lazy("older than")
    parameter_name = "older"


class FingerprintFilter(ConsoleFilter):
    """One group of failures. Only the page of failures links to it."""

    title = gettext_lazy("failure")
    parameter_name = "fingerprint"


class RetriedFilter(ConsoleFilter):
    """Leave out tasks that were retried already. Only the page of failures links to it."""

    title = gettext_lazy("retried")
    parameter_name = "retried"

    def label_of(self, value: str) -> str:
        return _("Not yet")


FILTERS: tuple[type[ConsoleFilter], ...] = (
    StatusFilter, QueueFilter, WindowFilter, FunctionFilter, FingerprintFilter, RetriedFilter, OlderFilter,
)  # fmt: skip
PARAMETERS = frozenset({each.parameter_name for each in FILTERS} | {"q"})


def parse_uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def filter_query(params: Mapping[str, str]) -> Query:
    """Return the list's parameters except its search, as a query. Values that nobody offers match nothing."""
    older, window = params.get("older", ""), params.get("window", "")
    query = Query(below=parse_uuid(older), is_not_retried=bool(params.get("retried")))
    if (older and not query.below) or (window and window not in WINDOWS):
        query.problems.append("")
    if window in WINDOWS:
        query.since.append(WINDOWS[window][0])
    for name, values in (
        ("status", query.statuses), ("queue", query.queues), ("task", query.tasks), ("fingerprint", query.fingerprints),
    ):  # fmt: skip
        if value := params.get(name):
            values.append(value.lower() if name == "status" else value)
            query.words += 1
    return query


def apply_filters(tasks: TaskQuerySet, params: Mapping[str, str], *, can_see_payload: bool) -> TaskQuerySet:
    """Return the tasks that the list shows for these parameters to a user who may, or may not, see payloads."""
    for query in (filter_query(params), parse_search(params.get("q", ""))):
        tasks = matching(tasks, query, has_status="status" in params, can_see_payload=can_see_payload)
    return tasks


def look_back_floor(params: Mapping[str, str], using: str, limit: int | None = None) -> UUID | None:
    """Return the oldest id to read if no index serves the filters; None if all matches can be found."""
    chosen, parsed = filter_query(params), parse_search(params.get("q", ""))
    if has_index(parsed) or has_index(chosen):
        return None
    if parsed.is_only_a_period and not (chosen.words or chosen.is_not_retried):
        return None
    floor = statistics.newest_before(limit or statistics.LOOK_BACK, using, chosen.below)
    begin = first_id_at(chosen.since[0], current_scope().now) if chosen.since else UUID(int=0)
    return None if floor and floor <= begin else floor


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
