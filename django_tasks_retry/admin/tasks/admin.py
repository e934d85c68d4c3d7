"""TaskAdmin: the list of tasks with its actions, and the way to a task's page."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import PermissionDenied
from django.db.models import F
from django.db.models.fields.json import KT
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ...clock import Now
from ...display.display_status import badge, display_status_of
from ...display.formatting import format_elapsed, format_relative, one_line
from ...display.reading import unreadable_columns
from ...display.redact import redact_text
from ...display.scope import console_database, current_scope
from ...models import Task
from ...querysets import TaskQuerySet
from ...rules.ids import time_of
from ...rules.names import short_id, short_name
from ...rules.status import Status
from ...taskqueue.workflows.wake import SIGNAL
from ..bulk.actions import CANCEL, RETRY, RUN_NOW, Action
from ..bulk.confirm import selection_from_request
from ..workflows.pages import WorkflowAdmin
from . import detail, filters, search
from .changelist import LIST_COLUMNS, CappedPaginator, TaskChangeList, enqueued_time
from .single_actions import SingleActionAdmin


@admin.register(Task)
class TaskAdmin(SingleActionAdmin, WorkflowAdmin):
    list_display = ["short_id", "name", "display_status", "spent", "queue_name", "enqueued", "timing"]
    list_display_links = ["short_id", "name"]
    list_filter = filters.FILTERS
    list_per_page = 25
    list_max_show_all = 0
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    paginator = CappedPaginator
    ordering = ["-id"]
    sortable_by = ()
    empty_value_display = ""
    search_fields = ["id"]
    search_help_text = search.HELP
    actions = ["retry_selected", "cancel_selected", "run_now_selected"]

    def get_urls(self) -> list[Any]:
        return [
            *self.get_workflow_urls(),
            *super().get_urls(),
            self.page_url("add/", self.add_view, "add"),
            self.page_url("<path:object_id>/history/", self.history_view, "history"),
            self.page_url("<path:object_id>/delete/", self.delete_view, "delete"),
            self.page_url("<path:object_id>/change/", self.change_view, "change"),
            self.page_url("<path:object_id>/", self.short_view, "short"),
        ]

    def get_post_urls(self) -> list[Any]:
        bulk = self.post_url("bulk-action/", self.bulk_action_view, "bulk_action", in_batches=True)
        return [bulk, *self.get_action_urls()]

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        return lookup in filters.PARAMETERS

    def get_queryset(self, request: HttpRequest) -> Any:
        """What the list shows and no more: arguments, results and tracebacks are not read."""
        tasks = Task.objects.using(console_database()).only(*LIST_COLUMNS)
        tasks = tasks.annotate(
            seen_at=Now(), error_class=KT("last_error__exception"), error_code=KT("last_error__code")
        )
        message = KT("last_error__message") if self.has_payload_permission(request) else F("error_code")
        return tasks.annotate(error_message=message)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[TaskChangeList]:
        return TaskChangeList

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> tuple[Any, bool]:
        parsed = search.parse(search_term)
        visible = self.has_payload_permission(request)
        if request.method == "GET":
            for problem in search.problems(parsed, can_see_payload=visible):
                messages.warning(request, one_line(problem, 500))
        has_status = bool(request.GET.get("status"))
        return search.apply_search(queryset, parsed, has_status=has_status, can_see_payload=visible), False

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if request.method == "POST":
            request.POST = with_valid_selection(request.POST)
        context = {"console_pages": self.console_pages(request), **(extra_context or {})}
        return super().changelist_view(request, context)

    # Columns

    @admin.display(description=gettext_lazy("id"))
    def short_id(self, task: Task) -> SafeString:
        return format_html('<code title="{}">{}</code>', task.pk, short_id(task.pk))

    @admin.display(description=gettext_lazy("task"))
    def name(self, task: Any) -> SafeString:
        """Its function, and below it the last error, in one line each."""
        path, error = one_line(task.func_path, 255), error_line(task)
        name = format_html('<span class="dtr-name" title="{}">{}</span>', path, short_name(path))
        if not error:
            return name
        return format_html('{}<span class="dtr-error dtr-one-line" title="{}">{}</span>', name, error, error)

    @admin.display(description=gettext_lazy("status"))
    def display_status(self, task: Any) -> SafeString:
        return badge(display_status_of(task, task.seen_at))

    @admin.display(description=gettext_lazy("attempts"))
    def spent(self, task: Task) -> str:
        return f"{task.spent}/{task.max_attempts}"

    @admin.display(description=gettext_lazy("queue"))
    def queue_name(self, task: Task) -> str:
        return one_line(task.queue, 64)

    @admin.display(description=gettext_lazy("enqueued"))
    def enqueued(self, task: Any) -> SafeString:
        """From its id, which is read anyway and cannot be unreadable."""
        moment = time_of(task.pk)
        full = enqueued_time(task.pk)
        return format_html('<time datetime="{}" title="{}">{}</time>', moment.isoformat(), full, full[5:])

    @admin.display(description=gettext_lazy("due or duration"))
    def timing(self, task: Any) -> str:
        return _("cannot be read") if unreadable_columns(task) else timing(task, task.seen_at)

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
        """Not the queryset that Django hands to actions: a signed selection outlives the request."""
        params = {name: request.GET[name] for name in request.GET if name in filters.PARAMETERS}
        floor = filters.look_back_floor(params, console_database())
        visible = self.has_payload_permission(request)
        selection = selection_from_request(request, action, params, floor, sees_payload=visible)
        return self.confirmation_view(request, action, selection)

    # The page of one task

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """A task's history is on its page."""
        return self.change_view(request, object_id)

    def short_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        return HttpResponseRedirect(self.url("change", self.get_task_or_404(object_id).pk))

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        raise PermissionDenied

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Read only, whatever the user's permissions."""
        scope = current_scope()
        task = self.get_task_or_404(object_id, scope)
        if request.method != "GET" or not self.has_view_permission(request, task):
            raise PermissionDenied
        context = detail.detail_context(task, scope, request, can_see_payload=self.has_payload_permission(request))
        title = f"{one_line(short_name(task.func_path), 80)} {short_id(task.pk)}"
        return self.render_page(request, "task", title, context)


def with_valid_selection(posted: QueryDict) -> Any:
    """Without ids that are none. Django runs no action without a ticked row, which "all matching" does not have."""
    ids = [each for each in posted.getlist(ACTION_CHECKBOX_NAME) if filters.parse_uuid(each)]
    valid = posted.copy()
    valid.setlist(ACTION_CHECKBOX_NAME, ids or ([""] if posted.get("select_across") == "1" else []))
    return valid


def error_line(task: Any) -> str:
    """The last error, as far as the user may see it; empty where there is none."""
    if not (task.error_class or task.error_code):
        return ""
    text = short_name(task.error_class or "") or task.error_code
    if task.error_message not in {None, "", task.error_code}:
        text = f"{text}: {redact_text(task.error_message[:2000])}"
    return one_line(text, 200)


def timing(task: Task, now: datetime) -> str:
    """When a task will run, or how long it has waited, run or taken: whatever matters in its status."""
    if task.status == Status.PENDING and task.waits_for is not None:
        return _("waiting for a signal") if task.waits_for.startswith(SIGNAL) else _("waiting for tasks")
    if task.status == Status.PENDING and task.eta > now:
        return format_relative(task.eta, now)
    if task.status == Status.PENDING:
        return _("waiting for %(time)s") % {"time": format_elapsed(task.eta, now)}
    if task.status == Status.RUNNING and task.last_attempt_at:
        return _("running for %(time)s") % {"time": format_elapsed(task.last_attempt_at, now)}
    if task.last_attempt_at and task.finished_at:
        return format_elapsed(task.last_attempt_at, task.finished_at)
    return ""
