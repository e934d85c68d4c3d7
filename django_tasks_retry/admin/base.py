"""The base of the console's pages: permissions, limits of a request, rendering, navigation and the log of actions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError, models
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, URLPattern, path, reverse
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST

from .. import guard
from ..display.formatting import one_line
from ..display.scope import console_backend, console_database, note_of_replica
from ..errors import TaskQueueError
from ..models import FailureGroup, FlowLimit, Overview, Queue, Schedule, Task, TaskFunction, Worker
from ..rules.redact import redact_text
from ..selection.actions import CANCEL, RETRY
from ..taskqueue import is_timeout, statement_timeout, statistics
from ..taskqueue.database import is_missing_table
from .parts.shards import on_shard, shard_tabs

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
else:
    ModelAdmin = admin.ModelAdmin

APP = Task._meta.app_label
CONSOLE_MODELS: tuple[type[models.Model], ...] = (
    Overview, Task, FailureGroup, TaskFunction, Schedule, Queue, FlowLimit, Worker,
)  # fmt: skip
MAX_PARAMETER = 2000
View = Callable[..., HttpResponse]
Verb = Callable[..., Any]
MESSAGE_LIMIT = 500
MAX_ENTRIES = 100  # up to this many objects get an entry each; more share one entry


class ConsoleAdmin(ModelAdmin):
    """Show rows and call the service layer. Rows are never added, edited or deleted here."""

    class Media:
        css = {"all": ["django_tasks_retry/console.css"]}

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_perm(self, request: HttpRequest, permission: str) -> bool:
        return request.user.has_perm(f"{APP}.{permission}")

    def has_payload_permission(self, request: HttpRequest) -> bool:
        return self.has_perm(request, "view_task_payload")

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        """Refuse lookups by column: `?kwargs__startswith=` would reveal hidden values."""
        return False

    def get_urls(self) -> list[Any]:
        """Return the list and the doors; subclasses with a page for one object add it."""
        return [*self.get_post_urls(), self.page_url("", self.changelist_view, "changelist", from_replica=True)]

    def get_post_urls(self) -> list[URLPattern]:
        """Return the addresses that change something. They accept POST only."""
        return []

    def page_url(self, route: str, view: View, name: str, permission: str = "", **limits: Any) -> URLPattern:
        """Return an address within the limits of a request. All addresses of the console are made here."""
        checked = self.admin_site.admin_view(bounded(self, view, permission, **limits))
        return path(route, checked, name=f"{APP}_{self.opts.model_name}_{name}")

    def post_url(self, route: str, view: View, name: str, permission: str = "", **limits: Any) -> URLPattern:
        return self.page_url(route, require_POST(view), name, permission, **limits)

    def url(self, name: str, *args: Any, model: str = "") -> str:
        """Return an address; empty for a row whose name no address can hold, such as one with a line break."""
        view = f"admin:{APP}_{model or self.opts.model_name}_{name}"
        try:
            return reverse(view, args=args, current_app=self.admin_site.name)
        except NoReverseMatch:
            return ""

    def render_page(
        self, request: HttpRequest, template: str, title: Any, context: Mapping[str, Any], status: int = 200
    ) -> TemplateResponse:
        request.current_app = self.admin_site.name
        full_context = {
            **({} if is_update(request) else self.admin_site.each_context(request)),
            "opts": self.opts,
            "app_label": APP,
            "is_update": is_update(request),
            "base_template": "django_tasks_retry/_update.html" if is_update(request) else "admin/base_site.html",
            "title": title,
            "media": self.media,
            **self.navigation(request),
            "tasks_url": self.url("changelist", model="task"),
            "can_see_payload": self.has_payload_permission(request),
            "can_retry": RETRY.is_allowed(request),
            "can_cancel": CANCEL.is_allowed(request),
            **context,
        }
        return TemplateResponse(request, f"django_tasks_retry/{template}.html", full_context, status=status)

    def render_notice(self, request: HttpRequest, title: str, text: str, status: int = 200) -> TemplateResponse:
        """Show users of the console what went wrong and what to do."""
        if not self.has_module_permission(request):
            raise PermissionDenied
        return self.render_page(request, "notice", title, {"text": text}, status)

    def decide(
        self, request: HttpRequest, key: str, action: str, verb: Verb, done: str, *, refused: str = "", to: str = ""
    ) -> HttpResponse:
        """Run an operator's verb on a queue, lane, schedule or worker; log it, report the outcome and redirect."""
        reason = reason_of(request)
        try:
            changed = verb(by=request.user, reason=reason, backend=console_backend())
        except TaskQueueError as error:
            messages.error(request, one_line(error, 300))
        else:
            if changed is False:
                messages.warning(request, refused)
            else:
                log_action(request, self.model, [(key[:128], one_line(key, 128))], action, reason)
                messages.success(request, done)
        return HttpResponseRedirect(to or self.url("changelist"))

    def navigation(self, request: HttpRequest) -> dict[str, Any]:
        """Return what stands above each page."""
        return {
            "console_pages": self.console_pages(request),
            "replica": note_of_replica(),
            "shards": shard_tabs(console_backend()),
        }

    def console_pages(self, request: HttpRequest) -> list[dict[str, Any]]:
        """Return the console's navigation: the pages that this user may view."""
        registered = [(model, self.admin_site._registry.get(model)) for model in CONSOLE_MODELS]
        return [
            {
                "label": capfirst(str(model._meta.verbose_name_plural)),
                "url": self.url("changelist", model=str(model._meta.model_name)),
                "current": model is self.model,
            }
            for model, model_admin in registered
            if model_admin is not None and model_admin.has_view_permission(request)
        ]


class ArgumentsForm(forms.Form):
    args = forms.JSONField(
        label=gettext_lazy("Arguments"), required=False, widget=forms.Textarea(attrs={"rows": 2}),
        help_text=gettext_lazy("A JSON list, such as [42]."),
    )  # fmt: skip
    kwargs = forms.JSONField(
        label=gettext_lazy("Keyword arguments"), required=False, widget=forms.Textarea(attrs={"rows": 2}),
        help_text=gettext_lazy('A JSON object, such as {"region": "us"}.'),
    )  # fmt: skip


class TaskPermissionMixin(ConsoleAdmin):
    """Let users who may view tasks view pages that show tasks through another model."""

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_perm(request, "view_task")

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)


def bounded(
    console: ConsoleAdmin,
    view: View,
    permission: str = "",
    *,
    in_batches: bool = False,
    read_only: bool = False,
    from_replica: bool = False,
) -> View:
    """Return the view with checked input and permissions, and a time limit. Batches set a limit each."""

    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        with nullcontext() if in_batches else statement_timeout(console_database()):
            check_allowed(console, request, permission, read_only=read_only)
            return view(request, *args, **kwargs)

    @functools.wraps(view)
    def limited(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not all(map(is_storable, texts_of(request, kwargs))):
            text = _("The request contains a value that is too long or has invalid characters.")
            return console.render_notice(request, _("Bad request"), text, 400)
        return on_shard(console, request, kwargs, lambda: answer_in_time(request, *args, **kwargs))

    def answer_in_time(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            # The page after an action shows what was done.
            if from_replica and request.method == "GET" and not messages.get_messages(request):
                return statistics.from_replica(console_backend(), lambda: answer(request, *args, **kwargs))
            return answer(request, *args, **kwargs)
        except DatabaseError as error:
            if (page := error_page(console, request, error)) is None:
                raise
            return page

    return limited


def error_page(console: ConsoleAdmin, request: HttpRequest, error: DatabaseError) -> HttpResponse | None:
    """Return a page that says what to do about an error; None if nobody knows."""
    if is_timeout(error):
        text = _(
            "The database took too long to answer, and nothing was changed. Try again in a moment, or narrow "
            "the question: choose a status, a queue or a shorter period."
        )
        return console.render_notice(request, _("This took too long"), text)
    if is_missing_table(error) and not guard.has_tables(console_database()):
        text = _("The tables of the task queue do not exist. Create them with: python manage.py migrate")
        return console.render_notice(request, _("Not migrated"), text, 503)
    return None


def check_allowed(console: ConsoleAdmin, request: HttpRequest, permission: str, *, read_only: bool) -> None:
    """Refuse users who may not view the page or lack the door's permission, and writes to a read-only page."""
    is_allowed = console.has_view_permission(request) and (not permission or console.has_perm(request, permission))
    if not is_allowed or (read_only and request.method != "GET"):
        raise PermissionDenied


def texts_of(request: HttpRequest, kwargs: dict[str, Any]) -> Iterable[str]:
    """Return all texts that the user sent. Tokens are signed and reasons are cut, so these may be long."""
    yield from (str(value) for value in kwargs.values())
    for sent in (request.GET, request.POST):
        for name, values in sent.lists():
            yield name
            yield from (str(value)[: MAX_PARAMETER if name in {"reason", "token"} else None] for value in values)


def is_storable(text: str) -> bool:
    """Return whether a database accepts the text as a parameter."""
    return len(text) <= MAX_PARAMETER and "\x00" not in text and not any("\ud800" <= char <= "\udfff" for char in text)


def is_update(request: HttpRequest) -> bool:
    """Return whether live.js asks: it needs the page's own part alone."""
    return request.headers.get("X-Console") == "update"


def reason_of(request: HttpRequest) -> str:
    return request.POST.get("reason", "").strip()


def log_action(
    request: HttpRequest, model: type[models.Model], objects: Sequence[tuple[str, str]], action: str, reason: str
) -> None:
    """Log an action on objects, given as (id, name)."""
    content_type = ContentType.objects.get_for_model(model, for_concrete_model=False)
    message = one_line(f"{action}: {redact_text(reason)}" if reason else action, MESSAGE_LIMIT)
    if len(objects) > MAX_ENTRIES:
        values = {"count": len(objects), "first": objects[0][1], "last": objects[-1][1]}
        objects = [("", _("%(count)s objects, from %(first)s to %(last)s") % values)]
    user: Any = request.user
    common: Any = {"user_id": user.pk, "content_type": content_type, "action_flag": CHANGE, "change_message": message}
    LogEntry.objects.bulk_create(
        [LogEntry(object_id=key or None, object_repr=name[:200], **common) for key, name in objects]
    )
