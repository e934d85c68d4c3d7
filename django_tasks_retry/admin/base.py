"""What the console's pages share: permissions, rendering, addresses and navigation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db import models
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.text import capfirst
from django.views.decorators.http import require_POST

from ..models import FailureGroup, LaneState, Overview, Queue, Schedule, Task, TaskFunction, Worker
from .requests import bounded

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
else:
    ModelAdmin = admin.ModelAdmin

APP = Task._meta.app_label
CONSOLE_MODELS: tuple[type[models.Model], ...] = (
    Overview,
    Task,
    FailureGroup,
    TaskFunction,
    Schedule,
    Queue,
    LaneState,
    Worker,
)


class ConsoleAdmin(ModelAdmin):
    """Shows rows and calls the service layer. Nothing is added, edited or deleted here."""

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
        """No column can be asked for by its name: `?kwargs__startswith=` would tell what may not be seen."""
        return False

    def get_urls(self) -> list[Any]:
        """The list alone; subclasses with a page for one object add it."""
        return [*self.get_post_urls(), self.page_url("", self.changelist_view, "changelist")]

    def get_post_urls(self) -> list[URLPattern]:
        """Addresses that change something: they take POST only."""
        return []

    def page_url(self, route: str, view: Callable[..., HttpResponse], name: str, **limits: Any) -> URLPattern:
        """Every address of the console is made here, within the limits of a request."""
        return path(route, self.admin_site.admin_view(bounded(self, view, **limits)), name=self.url_name(name))

    def post_url(self, route: str, view: Callable[..., HttpResponse], name: str, **limits: Any) -> URLPattern:
        return self.page_url(route, require_POST(view), name, **limits)

    def url_name(self, name: str) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}_{name}"

    def url(self, name: str, *args: Any, model: str = "") -> str:
        view = f"admin:{APP}_{model or self.opts.model_name}_{name}"
        return reverse(view, args=args, current_app=self.admin_site.name)

    def render_page(
        self, request: HttpRequest, template: str, title: Any, context: Mapping[str, Any], status: int = 200
    ) -> TemplateResponse:
        request.current_app = self.admin_site.name
        full_context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "app_label": APP,
            "title": title,
            "media": self.media,
            "console_pages": self.console_pages(request),
            **context,
        }
        return TemplateResponse(request, f"django_tasks_retry/{template}.html", full_context, status=status)

    def render_notice(self, request: HttpRequest, title: str, text: str, status: int = 200) -> TemplateResponse:
        """A page that says what went wrong and what to do, to those who may see the console."""
        if not self.has_module_permission(request):
            raise PermissionDenied
        return self.render_page(request, "notice", title, {"text": text}, status)

    def console_pages(self, request: HttpRequest) -> list[dict[str, Any]]:
        """The console's own navigation: the pages that this user may see."""
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


class TaskPermissionMixin(ConsoleAdmin):
    """For pages that show tasks through another model: who may view tasks may view them."""

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_perm(request, "view_task")

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)
