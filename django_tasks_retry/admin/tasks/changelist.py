"""The change list of tasks and its paginator: bounded, and never counted to the end."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db.utils import OperationalError
from django.http import HttpRequest
from django.utils import timezone
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from ...display.formatting import format_capped, format_number
from ...display.reading import read_rows
from ...models import Task
from ...rules.ids import time_of
from ...taskqueue.operator.summaries import CAP
from ..statement_timeout import is_timeout, statement_timeout
from . import filters, search

LIST_COLUMNS = (
    "id", "func_path", "queue", "status", "eta", "attempts", "refunds", "max_attempts", "last_attempt_at",
    "finished_at", "waits_for",
)  # fmt: skip
ANNOTATIONS = ("seen_at", "error_class", "error_code", "error_message")


# Only type checkers, and the backport's patches, let Django's Paginator take a parameter.
class CappedPaginator(Paginator[Task] if TYPE_CHECKING else Paginator):  # type: ignore[misc]
    """Counts to CAP and no further, by reading ids in the order of the page, which an index serves."""

    @cached_property
    def count(self) -> int:
        tasks: Any = self.object_list
        self.more = False
        count = len(tasks.values_list("pk", flat=True)[: CAP + 1])
        self.more = count > CAP
        return min(count, CAP)


class TaskChangeList(ChangeList):
    """Bounded in how far it looks back, and in how long the database may take."""

    too_broad = False
    is_cut = False
    looked_at = 0
    floor: UUID | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.title = capfirst(str(self.opts.verbose_name_plural))

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> Any:
        self.active_filters = filters.filter_params(self)
        return super().get_queryset(request, exclude_parameters)

    def get_results(self, request: HttpRequest) -> None:
        """Of the newest tasks; where none of them matches, of more."""
        every, self.floor = self.queryset, None
        try:
            with statement_timeout(self.root_queryset.db):
                for self.looked_at in (filters.LOOK_BACK, filters.LOOK_FURTHER_BACK):
                    self.floor = filters.look_back_floor(self.active_filters, every.db, self.looked_at)
                    self.queryset = every if self.floor is None else every.filter(pk__gte=self.floor)
                    self.look_into_payload()
                    super().get_results(request)
                    if self.result_count or self.floor is None or self.is_cut:
                        break
                self.result_list = read_rows(self.result_list, LIST_COLUMNS, ANNOTATIONS)
        except OperationalError as error:
            if not is_timeout(error):
                raise
            self.too_broad, self.queryset = True, self.queryset.none()
            super().get_results(request)
            self.result_list = []

    def look_into_payload(self) -> None:
        """For a search in arguments or metadata: the database names candidates, of which a bounded number is read."""
        query = search.parse(self.query)
        if query.has_payload and not query.problems:
            found = search.find_visible_tasks(self.queryset, query)
            self.queryset = self.queryset.filter(pk__in=found.ids)
            if found.reached is not None:
                self.floor, self.is_cut = found.reached, True

    @property
    def is_empty(self) -> bool:
        """True in a new install, which shows how to begin."""
        return not (self.result_count or self.active_filters or self.too_broad)

    @property
    def count_text(self) -> str:
        return format_capped(self.result_count + getattr(self.paginator, "more", False), CAP)

    @property
    def older_query(self) -> str | None:
        """Where the capped list ends, the query string that continues from there."""
        last_page = self.page_num == self.paginator.num_pages
        if not (getattr(self.paginator, "more", False) and last_page and self.result_list):
            return None
        return self.get_query_string({"older": str(self.result_list[-1].pk)}, ["p"])

    @property
    def further_query(self) -> str | None:
        """Where the list ends with what was looked at, the query string that looks further back."""
        is_complete = self.floor is None or self.too_broad or getattr(self.paginator, "more", False)
        if is_complete or self.page_num != max(self.paginator.num_pages, 1):
            return None
        return self.get_query_string({"older": str(self.floor)}, ["p"])

    @property
    def retrying_query(self) -> str | None:
        """A search for an error means failed tasks; the query string for those that wait for another attempt."""
        query = search.parse(self.query)
        if not query.errors or query.statuses or "status" in self.active_filters:
            return None
        return self.get_query_string({"status": "retrying"}, ["p", "older"])

    @property
    def notice(self) -> str:
        if self.too_broad:
            return _("The query took too long. Narrow the search: choose a status or a shorter period.")
        if self.floor is None:
            return ""
        values = {"count": format_number(self.looked_at), "since": enqueued_time(self.floor)}
        if self.is_cut:
            return _("Searched in tasks enqueued since %(since)s, and not further back yet.") % values
        below = filters.parse_uuid(self.active_filters.get("older", ""))
        if below:
            text = _("Searched %(count)s tasks, enqueued from %(since)s to %(until)s.")
            return text % {**values, "until": enqueued_time(below)}
        return _("Searched the newest %(count)s tasks, enqueued since %(since)s.") % values


def enqueued_time(task_id: Any) -> str:
    return f"{timezone.localtime(time_of(task_id)):%Y-%m-%d %H:%M}"
