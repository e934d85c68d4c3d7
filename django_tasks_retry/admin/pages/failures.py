"""The page of failures, similar ones grouped: what fails, since when, how often; retry or cancel a whole group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models.fields.json import KT
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from ...display.failure_words import error_words, message_words, place_in_project
from ...display.formatting import format_ago, format_capped, format_count, one_line
from ...display.scope import Scope, current_scope
from ...models import FailureGroup, Task
from ...rules.names import short_name
from ...taskqueue.operator import failure_groups
from ...taskqueue.operator.summaries import CAP
from ..base import TaskPermissionMixin
from ..bulk.actions import ACTIONS, CANCEL, RETRY
from ..bulk.confirm import BulkActionAdmin, select_all
from .failure_group import group_context
from .failure_search import matching_heads

PER_PAGE = 25


@dataclass(frozen=True, slots=True)
class FailureRow:
    fingerprint: str
    error: str
    message: str
    location: str
    task: str
    path: str
    open: int
    open_text: str
    hour: str
    day: str
    failed: str
    retrying: int
    retrying_text: str
    first: datetime | None
    last_text: str


@admin.register(FailureGroup)
class FailureAdmin(TaskPermissionMixin, BulkActionAdmin):
    def get_urls(self) -> list[Any]:
        return [*super().get_urls(), self.page_url("<str:fingerprint>/", self.group_view, "group")]

    def get_post_urls(self) -> list[Any]:
        return [self.post_url("<str:fingerprint>/<str:name>/", self.group_action_view, "act")]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        scope, visible = current_scope(), self.has_payload_permission(request)
        query = request.GET.get("q", "").strip()
        heads = failure_groups.group_heads(scope.using)
        found = matching_heads(heads, query, scope.using, can_see_payload=visible)
        page = Paginator(found, PER_PAGE).get_page(request.GET.get("p"))
        groups = failure_groups.describe_groups(list(page), scope.using)
        context = {
            "groups": failure_rows(groups, scope, can_see_payload=visible),
            "page": page,
            "query": query,
            "page_query": urlencode({"q": query}) + "&" if query else "",
            "is_cut": len(heads) >= failure_groups.MAX_GROUPS,
            "can_retry": RETRY.is_allowed(request),
            "can_cancel": CANCEL.is_allowed(request),
            "tasks_url": self.url("changelist", model="task"),
        }
        return self.render_page(request, "failures", _("Failures"), context)

    def group_view(self, request: HttpRequest, fingerprint: str) -> HttpResponse:
        """One group: what fails, where, with which arguments, since when, and what became of it."""
        if request.method != "GET" or not self.has_view_permission(request):
            raise PermissionDenied
        scope, visible = current_scope(), self.has_payload_permission(request)
        head = failure_groups.group_head(fingerprint, scope.using)
        groups = failure_groups.describe_groups([head], scope.using) if head else []
        if not groups:
            text = _("No task with this error is stored: all were deleted, or succeeded in a later attempt.")
            return self.render_notice(request, _("No such failure"), text, 404)
        context = {
            **group_context(groups[0], scope, request, can_see_payload=visible),
            "can_retry": RETRY.is_allowed(request),
            "can_cancel": CANCEL.is_allowed(request),
            "tasks_url": self.url("changelist", model="task"),
        }
        return self.render_page(request, "failure_group", error_words(groups[0]), context)

    def group_action_view(self, request: HttpRequest, fingerprint: str, name: str) -> HttpResponse:
        """The confirmation page for a group: retry what failed and was not retried, or cancel what is retrying."""
        action = ACTIONS.get(name)
        if action not in (RETRY, CANCEL):
            raise Http404
        if not (action.is_allowed(request) and self.has_view_permission(request)):
            raise PermissionDenied
        status = {"status": "failed", "retried": "no"} if action is RETRY else {"status": "retrying"}
        selection = select_all(action, request.user, {"fingerprint": fingerprint, **status})
        return self.confirmation_view(request, action, selection)


def failure_rows(
    groups: Sequence[failure_groups.FailureGroup], scope: Scope, *, can_see_payload: bool, with_locations: bool = True
) -> list[FailureRow]:
    tracebacks: dict[UUID, str] = {}
    if with_locations and groups and can_see_payload:
        samples = Task.objects.using(scope.using).filter(pk__in=[each.sample for each in groups])
        tracebacks = dict(samples.values_list("pk", KT("last_error__traceback")))
    many = any(each.failed > CAP for each in groups)
    estimates = failure_groups.estimates(scope.using) if many else {}
    return [
        failure_row(each, tracebacks.get(each.sample) or "", scope.now, estimates, can_see_payload=can_see_payload)
        for each in groups
    ]


def failure_row(
    group: failure_groups.FailureGroup,
    traceback: str,
    now: datetime,
    estimates: Mapping[str, int],
    *,
    can_see_payload: bool,
) -> FailureRow:
    return FailureRow(
        fingerprint=group.fingerprint,
        error=error_words(group),
        message=message_words(group, can_see_payload=can_see_payload),
        location=place_in_project(traceback),
        task=one_line(short_name(group.func_path), 80),
        path=one_line(group.func_path, 255),
        open=group.open,
        open_text=format_capped(group.open),
        hour=format_capped(group.failed_this_hour),
        day=format_capped(group.failed_today),
        failed=format_count(group.failed, CAP, estimates.get(group.fingerprint, 0)),
        retrying=group.retrying,
        retrying_text=format_capped(group.retrying),
        first=group.first_failed_at,
        last_text=format_ago(group.last_failed_at, now),
    )
