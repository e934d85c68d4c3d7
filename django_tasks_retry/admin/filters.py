"""The list's filters. Their choices come from settings and the registry, their answers from indexes or a look back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import Exists, F, OuterRef
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from .. import registry
from ..models import Task
from ..querysets import TaskQuerySet
from ..rules.ids import first_of
from ..taskqueue import summaries
from . import search, standing
from .place import here, queue_names
from .wording import line, short_path

LOOK_BACK = 25_000
"""How many of the newest tasks are looked at for a question that no index answers."""

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
        offered = self.offered()
        chosen = self.value()
        if chosen and chosen not in dict(offered):
            offered.append((chosen, line(self.name_of(chosen), 40)))
        return offered

    def offered(self) -> Choices:
        return []

    def name_of(self, value: str) -> str:
        return value

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        value = self.value()
        return self.narrow(queryset, value) if value else queryset

    @classmethod
    def narrow(cls, tasks: TaskQuerySet, value: str) -> TaskQuerySet:
        raise NotImplementedError

    @classmethod
    def has_index(cls, value: str) -> bool:
        return False


class StandingFilter(ConsoleFilter):
    title = _("status")
    parameter_name = "status"

    def offered(self) -> Choices:
        return [(each.name, each.label) for each in standing.STANDINGS]

    @classmethod
    def narrow(cls, tasks: TaskQuerySet, value: str) -> TaskQuerySet:
        match value.lower():
            case "ready":
                return tasks.due().filter(attempts=F("refunds"))
            case "scheduled":
                return tasks.scheduled()
            case "retrying":
                return tasks.retrying()
            case other:
                return tasks.filter(status=other.upper())

    @classmethod
    def has_index(cls, value: str) -> bool:
        return value.lower() not in {"success", "cancelled"}


class QueueFilter(ConsoleFilter):
    title = _("queue")
    parameter_name = "queue"

    def offered(self) -> Choices:
        return [(name, line(name, 40)) for name in queue_names()]

    @classmethod
    def narrow(cls, tasks: TaskQuerySet, value: str) -> TaskQuerySet:
        return tasks.filter(queue=value)


class FunctionFilter(ConsoleFilter):
    title = _("task")
    parameter_name = "task"

    def offered(self) -> Choices:
        return [(path, line(short_path(path), 40)) for path in registry.known_paths()]

    @classmethod
    def narrow(cls, tasks: TaskQuerySet, value: str) -> TaskQuerySet:
        return tasks.filter(func_path=value)


class WindowFilter(ConsoleFilter):
    title = _("time enqueued")
    parameter_name = "window"

    def offered(self) -> Choices:
        return [(name, label) for name, (_span, label) in WINDOWS.items()]

    @classmethod
    def narrow(cls, tasks: TaskQuerySet, value: str) -> TaskQuerySet:
        if value not in WINDOWS:
            return tasks.none()
        since = here().now - WINDOWS[value][0]
        return tasks.filter(pk__gte=first_of(int(since.timestamp() * 1000)))


class OlderFilter(ConsoleFilter):
    """Goes on where the last page ends. Offered by the pagination only."""

    title = _("older than")
    parameter_name = "older"

    @classmethod
    def narrow(cls, tasks: TaskQuerySet, value: str) -> TaskQuerySet:
        below = as_uuid(value)
        return tasks.filter(pk__lt=below) if below else tasks.none()


class AlikeFilter(ConsoleFilter):
    """One group of failures. Offered by the page of failures only."""

    title = _("failure")
    parameter_name = "alike"

    @classmethod
    def narrow(cls, tasks: TaskQuerySet, value: str) -> TaskQuerySet:
        return tasks.filter(fingerprint=value)


class RetriedFilter(ConsoleFilter):
    """Leaves out what was retried already. Offered by the page of failures only."""

    title = _("retried")
    parameter_name = "retried"

    def name_of(self, value: str) -> str:
        return str(_("Not yet"))

    @classmethod
    def narrow(cls, tasks: TaskQuerySet, value: str) -> TaskQuerySet:
        return tasks.filter(~Exists(Task.objects.using(tasks.db).filter(retry_of=OuterRef("pk"))))


FILTERS: tuple[type[ConsoleFilter], ...] = (
    StandingFilter, QueueFilter, WindowFilter, FunctionFilter, AlikeFilter, RetriedFilter, OlderFilter,
)  # fmt: skip


NAMES = frozenset({each.parameter_name for each in FILTERS} | {"q"})


def as_uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def narrow(tasks: TaskQuerySet, params: Mapping[str, str]) -> TaskQuerySet:
    """The tasks that the list shows for these parameters."""
    for each in FILTERS:
        value = params.get(each.parameter_name)
        if value:
            tasks = each.narrow(tasks, value)
    return search.narrow(tasks, search.read(params.get("q", "")), has_status="status" in params)


def floor(params: Mapping[str, str], using: str) -> UUID | None:
    """The oldest id that is looked at, where a question has no index to answer it."""
    asked = [each for each in FILTERS if params.get(each.parameter_name)]
    found = search.read(params.get("q", ""))
    if found.has_index or any(each.has_index(params[each.parameter_name]) for each in asked):
        return None
    free = not found.asks_nothing or {QueueFilter, FunctionFilter, StandingFilter, AlikeFilter, RetriedFilter} & set(
        asked
    )
    return summaries.newest_before(LOOK_BACK, using, as_uuid(params.get("older", ""))) if free else None


def params_of(changelist: ChangeList) -> dict[str, str]:
    """The list's parameters as `narrow` takes them."""
    names = [each.parameter_name for each in FILTERS]
    chosen = changelist.get_filters_params()
    values = {name: chosen[name][-1] for name in names if chosen.get(name)}
    return values | ({"q": changelist.query} if changelist.query else {})
