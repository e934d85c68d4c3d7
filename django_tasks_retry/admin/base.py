"""What the console's pages share: who may see them, how they are rendered, how they lead to one another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import models
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.text import capfirst
from django.views.decorators.http import require_POST

from ..models import FailureGroup, Overview, Queue, Task, Worker
from .display.formatting import line

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
else:
    ModelAdmin = admin.ModelAdmin

APP = Task._meta.app_label
PAGES: tuple[type[models.Model], ...] = (Overview, Task, FailureGroup, Queue, Worker)


class ConsoleAdmin(ModelAdmin):
    """Shows, and hands decisions to the service layer. Nothing is added, edited or deleted here."""

    class Media:
        css = {"all": ["django_tasks_retry/console.css"]}

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def allows(self, request: HttpRequest, permission: str) -> bool:
        return request.user.has_perm(f"{APP}.{permission}")

    def has_payload_permission(self, request: HttpRequest) -> bool:
        return self.allows(request, "view_task_payload")

    def get_urls(self) -> list[Any]:
        """The list alone; pages about one object are added by those that have them."""
        return [
            *self.posts(),
            path("", self.admin_site.admin_view(self.changelist_view), name=self.url_name("changelist")),
        ]

    def posts(self) -> list[URLPattern]:
        """Addresses that change something."""
        return []

    def post(self, route: str, view: Callable[..., HttpResponse], name: str) -> URLPattern:
        return path(route, self.admin_site.admin_view(require_POST(view)), name=self.url_name(name))

    def url_name(self, name: str) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}_{name}"

    def url(self, name: str, *args: Any, model: str = "") -> str:
        full = f"admin:{APP}_{model or self.opts.model_name}_{name}"
        return reverse(full, args=args, current_app=self.admin_site.name)

    def page(
        self, request: HttpRequest, template: str, title: Any, context: Mapping[str, Any], status: int = 200
    ) -> TemplateResponse:
        request.current_app = self.admin_site.name
        whole = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "app_label": APP,
            "title": title,
            "media": self.media,
            "console_pages": self.console_pages(request),
            **context,
        }
        return TemplateResponse(request, f"django_tasks_retry/{template}.html", whole, status=status)

    def console_pages(self, request: HttpRequest) -> list[dict[str, Any]]:
        """The console's own navigation: the pages that this user may see."""
        registered = [(model, self.admin_site._registry.get(model)) for model in PAGES]
        return [
            {
                "label": capfirst(str(model._meta.verbose_name_plural)),
                "url": self.url("changelist", model=str(model._meta.model_name)),
                "current": model is self.model,
            }
            for model, page in registered
            if page is not None and page.has_view_permission(request)
        ]


class TasksPermission(ConsoleAdmin):
    """For pages that show tasks under another name."""

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.allows(request, "view_task")

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)


def names_of(actors: set[str]) -> dict[str, str]:
    """How actors are called: users by their names, all in one query; others as they call themselves."""
    keys = {actor: actor.partition(":")[2] for actor in actors if actor.startswith("user:")}
    known = usernames([key for key in keys.values() if could_be_user(key)])
    return {actor: line(known.get(keys.get(actor, ""), actor), 80) for actor in actors}


def usernames(keys: list[str]) -> dict[str, str]:
    users = get_user_model()._default_manager.filter(pk__in=keys) if keys else ()
    return {str(user.pk): user.get_username() for user in users}


def could_be_user(key: str) -> bool:
    """False for what the users' table would choke on."""
    field = get_user_model()._meta.pk
    try:
        field.run_validators(field.to_python(key))
    except ValidationError:
        return False
    return True
