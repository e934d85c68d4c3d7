"""The list of tasks with its columns and actions: bounded, and never counted to the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.contrib.admin.exceptions import DisallowedModelAdminLookup
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db.models import F
from django.db.models.fields.json import KT
from django.db.utils import OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..clock import Now
from ..display.formatting import format_capped, format_number, one_line, task_name
from ..display.scope import console_database, current_scope
from ..models import Task, TaskQuerySet
from ..rules.names import short_id
from ..selection.actions import CANCEL, RETRY, RUN_NOW, Action
from ..selection.grammar import HELP, parse_search
from ..selection.matching import matching
from ..selection.payload import find_visible
from ..taskqueue import engine_for, is_timeout, read_rows, statement_timeout, statistics, unreadable_columns
from .base import is_update
from .batches import WorkflowAdmin
from .calls import CallAdmin
from .parts import filters
from .parts.filters import enqueued_time, label_of
from .parts.selection import selection_from_request, with_valid_selection
from .parts.waterfall import chain_names
from .task import detail_context

LIST_COLUMNS = (
    "id", "func_path", "queue", "status", "eta", "attempts", "refunds", "max_attempts", "last_attempt_at",
    "finished_at", "waits_for",
)  # fmt: skip
ANNOTATIONS = ("seen_at", "error_class", "error_code", "error_message")


class TaskChangeList(ChangeList):
    """A list that looks back a bounded number of tasks, within a time limit."""

    paginator: filters.CappedPaginator
    too_broad = False
    is_cut = False
    looked_at = 0
    floor: UUID | None = None
    rows: Sequence[dict[str, Any]] = ()
    count_text = "0"
    choices = filters.Choices([], [], [])

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.title = capfirst(str(self.opts.verbose_name_plural))

    def get_filters(self, request: HttpRequest) -> Any:
        """Leave the filters to `get_queryset`, and refuse lookups by column: they would reveal hidden values."""
        for name in self.get_filters_params():
            if name not in filters.PARAMETERS:
                raise DisallowedModelAdminLookup(f"Filtering by {name} not allowed")
        return [], False, {}, False, False

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> Any:
        self.active_filters = filters.filter_params(self)
        tasks: Any = super().get_queryset(request, exclude_parameters)
        query, has_status = filters.filter_query(self.active_filters), "status" in self.active_filters
        return matching(tasks, query, can_see_payload=False, has_status=has_status)

    def get_results(self, request: HttpRequest) -> None:
        """Search the newest tasks, and more of them if none matches."""
        every, self.floor = self.queryset, None
        try:
            with statement_timeout(self.root_queryset.db):
                for self.looked_at in (statistics.LOOK_BACK, filters.LOOK_FURTHER_BACK):
                    self.floor = filters.look_back_floor(self.active_filters, every.db, self.looked_at)
                    self.queryset = every if self.floor is None else every.filter(pk__gte=self.floor)
                    self.look_into_payload()
                    super().get_results(request)
                    if self.result_count or self.floor is None or self.is_cut:
                        break
                self.result_list = read_rows(self.result_list, LIST_COLUMNS, ANNOTATIONS)
                self.rows, self.count_text = self.read_rows(), self.read_count()
                if not is_update(request):
                    console: Any = self.model_admin
                    may_view = {name: console.has_perm(request, f"view_{name}") for name in ("flowlimit", "worker")}
                    self.choices = filters.read_choices(current_scope(), may_view)
        except OperationalError as error:
            if not is_timeout(error):
                raise
            self.too_broad, self.queryset = True, self.queryset.none()
            super().get_results(request)
            self.result_list = []

    def look_into_payload(self) -> None:
        """Search arguments or metadata: read a bounded number of the database's candidates."""
        query = parse_search(self.query)
        if query.has_payload and not query.problems:
            found = find_visible(self.queryset.order_by("-pk"), query, filters.MAX_CANDIDATES)
            self.queryset = self.queryset.filter(pk__in=found.ids)
            if found.reached is not None:
                self.floor, self.is_cut = found.reached, True

    @property
    def is_empty(self) -> bool:
        """True in a new install, which shows how to begin."""
        return not (self.result_count or self.active_filters or self.too_broad)

    def read_count(self) -> str:
        if not self.paginator.more:
            return format_number(self.result_count)
        tasks: Any = self.queryset
        return format_capped(max(statistics.CAP + 1, engine_for(tasks.db).estimate_count(tasks)), statistics.CAP)

    @property
    def chips(self) -> list[tuple[Any, str, str]]:
        """Return the chosen filters, each with its title, its value and the address of the list without it."""
        return [
            (
                filters.TITLES[name],
                enqueued_time(key) if name == "older" and (key := filters.parse_uuid(value)) else label_of(name, value),
                self.get_query_string({}, [name, "p", "older"]),
            )
            for name, value in self.active_filters.items()
            if name in filters.TITLES
        ]

    def read_rows(self) -> list[dict[str, Any]]:
        """Return the tasks in words, with the newest retry of each."""
        console: Any = self.model_admin
        finished = [task.pk for task in self.result_list if not unreadable_columns(task) and task.is_finished]
        retries = Task.objects.using(self.root_queryset.db).filter(retry_of__in=finished).order_by("pk")
        newest = dict(retries.values_list("retry_of", "pk")) if finished else {}
        chains = chain_names(self.result_list)
        return [
            {
                **filters.task_row(task, chains),
                "url": console.url("change", task.pk),
                "box": console.action_checkbox(task) if "action_checkbox" in self.list_display else "",
                "retry": newest.get(task.pk),
            }
            for task in self.result_list
        ]

    @property
    def older_query(self) -> str | None:
        """Return the query string that continues after the last page of a capped list."""
        last_page = self.page_num == self.paginator.num_pages
        if not (self.paginator.more and last_page and self.result_list):
            return None
        return self.get_query_string({"older": str(self.result_list[-1].pk)}, ["p"])

    @property
    def further_query(self) -> str | None:
        """Return the query string that searches further back, on the last page of a bounded search."""
        is_complete = self.floor is None or self.too_broad or self.paginator.more
        if is_complete or self.page_num != max(self.paginator.num_pages, 1):
            return None
        return self.get_query_string({"older": str(self.floor)}, ["p"])

    @property
    def retrying_query(self) -> str | None:
        """Return the query string for retrying tasks: a search for an error shows failed tasks only."""
        query = parse_search(self.query)
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
            return _("Searched tasks enqueued since %(since)s so far.") % values
        if below := filters.parse_uuid(self.active_filters.get("older", "")):
            text = _("Searched %(count)s tasks, enqueued from %(since)s to %(until)s.")
            return text % {**values, "until": enqueued_time(below)}
        return _("Searched the newest %(count)s tasks, enqueued since %(since)s.") % values


@admin.register(Task)
class TaskAdmin(CallAdmin, WorkflowAdmin):
    list_display = ["pk"]
    list_per_page = 25
    list_max_show_all = 0
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    paginator = filters.CappedPaginator
    ordering = ["-id"]
    sortable_by = ()
    empty_value_display = ""
    search_fields = ["id"]
    search_help_text = HELP
    actions = ["retry_selected", "cancel_selected", "run_now_selected"]

    def get_urls(self) -> list[Any]:
        return [
            *self.get_workflow_urls(),
            *self.get_call_urls(),
            *super().get_urls(),
            self.page_url("add/", self.add_view, "add"),
            self.page_url("<path:object_id>/history/", self.change_view, "history", read_only=True),
            self.page_url("<path:object_id>/delete/", self.delete_view, "delete"),
            self.page_url("<path:object_id>/change/", self.change_view, "change", read_only=True),
            self.page_url("<path:object_id>/", self.short_view, "short"),
        ]

    def get_post_urls(self) -> list[Any]:
        bulk = self.post_url("bulk-action/", self.bulk_action_view, "bulk_action", in_batches=True)
        return [bulk, *self.get_proposal_urls(), *self.get_action_urls()]

    def get_queryset(self, request: HttpRequest) -> Any:
        """Read only the columns of the list, without arguments, results and tracebacks."""
        tasks = Task.objects.using(console_database()).only(*LIST_COLUMNS)
        tasks = tasks.annotate(
            seen_at=Now(), error_class=KT("last_error__exception"), error_code=KT("last_error__code")
        )
        message = KT("last_error__message") if self.has_payload_permission(request) else F("error_code")
        return tasks.annotate(error_message=message)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[TaskChangeList]:
        return TaskChangeList

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> tuple[Any, bool]:
        parsed = parse_search(search_term)
        visible = self.has_payload_permission(request)
        if request.method == "GET" and not is_update(request):
            for problem in filters.search_problems(parsed, can_see_payload=visible):
                messages.warning(request, one_line(problem, 500))
        has_status = bool(request.GET.get("status"))
        return matching(queryset, parsed, has_status=has_status, can_see_payload=visible), False

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if request.method == "POST":
            request.POST = with_valid_selection(request.POST)
        context = {"now": current_scope().now, **self.navigation(request), **(extra_context or {})}
        if self.has_perm(request, "enqueue_task"):
            context["enqueue_url"] = self.url("enqueue")
        response = super().changelist_view(request, context)
        if is_update(request) and isinstance(response, TemplateResponse):
            response.template_name = "django_tasks_retry/_task_list.html"
        return response

    # Actions

    def has_retry_permission(self, request: HttpRequest) -> bool:
        return RETRY.is_allowed(request)

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        return CANCEL.is_allowed(request)

    @admin.action(description=gettext_lazy("Retry…"), permissions=["retry"])
    def retry_selected(self, request: HttpRequest, queryset: TaskQuerySet) -> HttpResponse:
        return self.confirm_selected(request, RETRY)

    @admin.action(description=gettext_lazy("Cancel…"), permissions=["cancel"])
    def cancel_selected(self, request: HttpRequest, queryset: TaskQuerySet) -> HttpResponse:
        return self.confirm_selected(request, CANCEL)

    @admin.action(description=gettext_lazy("Run now…"), permissions=["retry"])
    def run_now_selected(self, request: HttpRequest, queryset: TaskQuerySet) -> HttpResponse:
        return self.confirm_selected(request, RUN_NOW)

    def confirm_selected(self, request: HttpRequest, action: Action) -> HttpResponse:
        """Ask first. A signed selection replaces Django's queryset, because it outlives the request."""
        params = {name: request.GET[name] for name in request.GET if name in filters.PARAMETERS}
        floor = filters.look_back_floor(params, console_database())
        visible = self.has_payload_permission(request)
        selection = selection_from_request(request, action.name, params, floor, sees_payload=visible)
        return self.confirmation_view(request, action, selection)

    # The page of one task

    def short_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return HttpResponseRedirect(self.url("change", self.get_task_or_404(object_id).pk))

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        raise PermissionDenied

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show one task. Its address is read-only for all users."""
        scope = current_scope()
        task = self.get_task_or_404(object_id, scope)
        context = {
            **detail_context(task, scope, request, can_see_payload=self.has_payload_permission(request)),
            "edit_url": self.url("edit", task.pk) if self.may_edit(request, task) else "",
            "can_signal": self.has_perm(request, "send_signal"),
            "can_resume": task.is_finished and RETRY.is_allowed(request),
        }
        title = f"{chain_names([task]).get(task.pk) or task_name(task.func_path)} {short_id(task.pk)}"
        return self.render_page(request, "task", title, context)
