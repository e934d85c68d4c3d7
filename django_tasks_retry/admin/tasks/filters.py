"""The list's filters. Choices come from settings and the registry, rows from an index or a bounded look back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import Exists, OuterRef
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from ... import registry
from ...display import display_status
from ...display.formatting import one_line
from ...display.scope import current_scope, queue_names
from ...models import Task
from ...querysets import TaskQuerySet
from ...rules.ids import first_of
from ...rules.names import short_name
from ...selection.matching import NOT_INDEXED, status_condition
from ...taskqueue.operator import summaries
from . import search

LOOK_BACK = 25_000
"""How many of the newest tasks are looked at for a filter that no index serves."""

LOOK_FURTHER_BACK = 100_000
"""How many are looked at where there is none among those. The list offers to go on from there."""

WINDOWS = {
    "15m": (timedelta(minutes=15), _("Last 15 minutes")),
    "1h": (timedelta(hours=1), _("Last hour")),
    "24h": (timedelta(days=1), _("Last 24 hours")),
    "7d": (timedelta(days=7), _("Last 7 days")),
}
Choices = list[tuple[str, Any]]


class ConsoleFilter(admin.SimpleListFilter):
    template = "django_tasks_retry/filter.html"

    if TYPE_CHECKING:
        parameter_name: str

    def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
        options = self.options()
        value = self.value()
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
        raise NotImplementedError

    @classmethod
    def has_index(cls, value: str) -> bool:
        return False


class StatusFilter(ConsoleFilter):
    title = _("status")
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
    title = _("queue")
    parameter_name = "queue"

    def options(self) -> Choices:
        return [(name, one_line(name, 40)) for name in queue_names()]

    @classmethod
    def apply(cls, tasks: TaskQuerySet, value: str) -> TaskQuerySet:
        return tasks.filter(queue=value)


class FunctionFilter(ConsoleFilter):
    title = _("task")
    parameter_name = "task"

    def options(self) -> Choices:
        return [(path, one_line(short_name(path), 40)) for path in registry.known_paths()]

    @classmethod
    def apply(cls, tasks: TaskQuerySet, value: str) -> TaskQuerySet:
        return tasks.filter(func_path=value)


class WindowFilter(ConsoleFilter):
    title = _("time enqueued")
    parameter_name = "window"

    def options(self) -> Choices:
        return [(name, label) for name, (_length, label) in WINDOWS.items()]

    @classmethod
    def apply(cls, tasks: TaskQuerySet, value: str) -> TaskQuerySet:
        if value not in WINDOWS:
            return tasks.none()
        return tasks.filter(pk__gte=window_start(value))


class OlderFilter(ConsoleFilter):
    """Continues where the last page ends. Only the pagination links to it."""

    title = _("older than")
    parameter_name = "older"

    @classmethod
    def apply(cls, tasks: TaskQuerySet, value: str) -> TaskQuerySet:
        below = parse_uuid(value)
        return tasks.filter(pk__lt=below) if below else tasks.none()


class FingerprintFilter(ConsoleFilter):
    """One group of failures. Only the page of failures links to it."""

    title = _("failure")
    parameter_name = "fingerprint"

    @classmethod
    def apply(cls, tasks: TaskQuerySet, value: str) -> TaskQuerySet:
        return tasks.filter(fingerprint=value)


class RetriedFilter(ConsoleFilter):
    """Leaves out what was retried already. Only the page of failures links to it."""

    title = _("retried")
    parameter_name = "retried"

    def label_of(self, value: str) -> str:
        return str(_("Not yet"))

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
    """The tasks that the list shows for these parameters to someone who may, or may not, see payloads."""
    for each in FILTERS:
        value = params.get(each.parameter_name)
        if value:
            tasks = each.apply(tasks, value)
    parsed = search.parse(params.get("q", ""))
    return search.apply_search(tasks, parsed, has_status="status" in params, can_see_payload=can_see_payload)


def look_back_floor(params: Mapping[str, str], using: str, limit: int | None = None) -> UUID | None:
    """The oldest id that is looked at, where no index serves the filters; None where all that match are found."""
    active = {each for each in FILTERS if params.get(each.parameter_name)}
    parsed = search.parse(params.get("q", ""))
    if search.has_index(parsed) or any(each.has_index(params[each.parameter_name]) for each in active):
        return None
    if parsed.is_only_a_period and active <= {WindowFilter, OlderFilter}:
        return None
    floor = summaries.newest_before(limit or LOOK_BACK, using, parse_uuid(params.get("older", "")))
    return None if floor and floor <= window_start(params.get("window", "")) else floor


def window_start(window: str) -> UUID:
    """The first id of a window; where there is none, the first of all."""
    if window not in WINDOWS:
        return UUID(int=0)
    since = current_scope().now - WINDOWS[window][0]
    return first_of(int(since.timestamp() * 1000))


def filter_params(changelist: ChangeList) -> dict[str, str]:
    """The list's parameters as `apply_filters` takes them."""
    given = changelist.get_filters_params()
    names = [each.parameter_name for each in FILTERS]
    values = {name: given[name][-1] for name in names if given.get(name)}
    return values | ({"q": changelist.query} if changelist.query else {})
