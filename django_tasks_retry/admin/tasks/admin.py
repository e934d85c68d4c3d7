"""Tasks: the list, and the way to a task's page."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.options import IS_POPUP_VAR
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import F
from django.db.models.fields.json import KT
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ...clock import Now
from ...errors import IllegalMove
from ...models import Task
from ...querysets import TaskQuerySet
from ...rules.status import Status
from ..base import ModelAdmin
from ..bulk.actions import CANCEL, DEEDS, RETRY, RUN_NOW, Deed, do
from ..bulk.confirm import BulkAdmin, chosen_in
from ..display.display_status import badge, standing_of
from ..display.formatting import ago, between, line, short_class, short_path
from ..display.redact import scrubbed
from ..scope import Place, here, using
from . import detail, filters, search
from .changelist import CappedPaginator, TaskList

SHOWN = (
    "id", "func_path", "queue", "status", "eta", "attempts", "refunds", "max_attempts", "last_attempt_at",
    "finished_at",
)  # fmt: skip


@admin.register(Task)
class TaskAdmin(BulkAdmin):
    list_display = ["short_id", "name", "standing", "spent", "queue_name", "when", "error"]
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
        return [*self.posts(), *ModelAdmin.get_urls(self)]

    def posts(self) -> list[Any]:
        each = [self.post(f"<path:object_id>/{name}/", self.act_on_one(deed), name) for name, deed in DEEDS.items()]
        return [self.post("act/", self.act, "act"), *each]

    def get_queryset(self, request: HttpRequest) -> Any:
        """What the list shows and no more: arguments, results and tracebacks stay where they are."""
        tasks = Task.objects.using(using()).only(*SHOWN)
        tasks = tasks.annotate(
            seen_at=Now(), error_class=KT("last_error__exception"), error_code=KT("last_error__code")
        )
        message = KT("last_error__message") if self.has_payload_permission(request) else F("error_code")
        return tasks.annotate(error_message=message)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[TaskList]:
        return TaskList

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> tuple[Any, bool]:
        asked = search.read(search_term)
        if asked.unknown and request.method == "GET":
            words = line(" ".join(asked.unknown), 60)
            messages.warning(request, _("“%(words)s” is not an id. %(help)s") % {"words": words, "help": search.HELP})
        return search.narrow(queryset, asked, has_status=bool(request.GET.get("status"))), False

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        # Django wants a tick beside "all matching"; without a script nobody can tick what is on other pages.
        if request.method == "POST" and request.POST.get("select_across") == "1":
            deed = {f"{name.replace('-', '_')}_selected": deed for name, deed in DEEDS.items()}.get(
                request.POST.get("action", "")
            )
            if deed is not None and self.has_view_permission(request):
                return self.ask_about_selected(request, deed)
        context = {"console_pages": self.console_pages(request), **(extra_context or {})}
        return super().changelist_view(request, context)

    # Columns

    @admin.display(description=gettext_lazy("id"))
    def short_id(self, task: Task) -> SafeString:
        # Tasks of one moment begin alike and differ at the end.
        key = str(task.pk)
        return format_html('<code title="{}">{}…{}</code>', key, key[:8], key[-6:])

    @admin.display(description=gettext_lazy("task"))
    def name(self, task: Task) -> SafeString:
        path = line(task.func_path, 255)
        return format_html('<span class="dtr-name" title="{}">{}</span>', path, short_path(path))

    @admin.display(description=gettext_lazy("status"))
    def standing(self, task: Any) -> SafeString:
        return badge(standing_of(task, task.seen_at))

    @admin.display(description=gettext_lazy("attempts"))
    def spent(self, task: Task) -> str:
        return f"{task.attempts - task.refunds}/{task.max_attempts}"

    @admin.display(description=gettext_lazy("queue"))
    def queue_name(self, task: Task) -> str:
        return line(task.queue, 64)

    @admin.display(description=gettext_lazy("next run or duration"))
    def when(self, task: Any) -> str:
        return when(task, task.seen_at)

    @admin.display(description=gettext_lazy("last error"))
    def error(self, task: Any) -> SafeString:
        if not (task.error_class or task.error_code):
            return SafeString("")
        kind = short_class(task.error_class or "") or task.error_code
        if task.error_message in {None, "", task.error_code}:
            return format_html('<span class="dtr-error">{}</span>', line(kind))
        return format_html(
            '<span class="dtr-error">{}</span>', line(f"{kind}: {scrubbed(task.error_message[:2000])}", 120)
        )

    # What can be done

    def has_retry_permission(self, request: HttpRequest) -> bool:
        return RETRY.is_allowed(request)

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        return CANCEL.is_allowed(request)

    @admin.action(description=gettext_lazy("Retry…"), permissions=["retry"])
    def retry_selected(self, request: HttpRequest, queryset: TaskQuerySet) -> HttpResponse:
        return self.ask_about_selected(request, RETRY)

    @admin.action(description=gettext_lazy("Cancel…"), permissions=["cancel"])
    def cancel_selected(self, request: HttpRequest, queryset: TaskQuerySet) -> HttpResponse:
        return self.ask_about_selected(request, CANCEL)

    @admin.action(description=gettext_lazy("Run now…"), permissions=["retry"])
    def run_now_selected(self, request: HttpRequest, queryset: TaskQuerySet) -> HttpResponse:
        return self.ask_about_selected(request, RUN_NOW)

    def ask_about_selected(self, request: HttpRequest, deed: Deed) -> HttpResponse:
        if not deed.is_allowed(request):
            raise PermissionDenied
        params = {name: request.GET[name] for name in request.GET if name in filters.NAMES}
        return self.ask(request, deed, chosen_in(request, deed, params, filters.floor(params, using())))

    def act_on_one(self, deed: Deed) -> Any:
        def act(request: HttpRequest, object_id: str) -> HttpResponse:
            task = self.find(object_id)
            if not (deed.is_allowed(request) and self.has_view_permission(request, task)):
                raise PermissionDenied
            return self.do_one(request, deed, task)

        return act

    def do_one(self, request: HttpRequest, deed: Deed, task: Task) -> HttpResponse:
        reason = request.POST.get("reason", "").strip()
        try:
            done = do(deed, [task.pk], request, reason, task.backend)
        except IllegalMove as refused:
            messages.error(request, str(refused))
            return HttpResponseRedirect(self.url("change", task.pk))
        if not done:
            messages.warning(request, _("Nothing was done: the task is %(why)s.") % {"why": deed.skipped_because})
            return HttpResponseRedirect(self.url("change", task.pk))
        messages.success(request, deed.told(1))
        again = Task.objects.using(using()).filter(retry_of=task.pk).order_by("-pk") if deed is RETRY else None
        fresh = again.values_list("pk", flat=True).first() if again is not None else None
        return HttpResponseRedirect(self.url("change", fresh or task.pk))

    def find(self, object_id: str, place: Place | None = None) -> Task:
        key = filters.as_uuid(unquote(object_id))
        tasks = Task.objects.using((place or here()).using).select_related("outcome")
        task: Task | None = tasks.filter(pk=key).first() if key else None
        if task is None:
            raise Http404
        return task

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """The task's page. It is read only, whoever looks."""
        place = here()
        task = self.find(object_id, place)
        if request.method != "GET" or not self.has_view_permission(request, task):
            raise PermissionDenied
        context = detail.context(task, place, request, can_see_payload=self.has_payload_permission(request))
        title = f"{line(short_path(task.func_path), 80)} {str(task.pk)[:18]}"
        shared = {"original": title, "change": True, "has_view_permission": True, IS_POPUP_VAR: False}
        return self.page(request, "task", title, {**shared, **context})


def when(task: Task, now: datetime) -> str:
    """What is worth knowing about a task's time in one cell."""
    if task.status == Status.PENDING:
        return ago(task.eta, now) if task.eta > now else _("waits for %(time)s") % {"time": between(task.eta, now)}
    if task.status == Status.RUNNING and task.last_attempt_at:
        return _("runs for %(time)s") % {"time": between(task.last_attempt_at, now)}
    if task.last_attempt_at and task.finished_at:
        return between(task.last_attempt_at, task.finished_at)
    return ""
