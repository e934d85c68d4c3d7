"""The page of failures, similar ones grouped: what fails, since when, how often; retry or cancel a whole group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models.fields.json import KT
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from ...display.formatting import format_capped, format_relative, one_line
from ...display.redact import redact_text
from ...display.scope import Scope, current_scope
from ...models import FailureGroup, Task
from ...rules.fingerprint import general
from ...rules.frames import Frame, frames_of, innermost_project_frame
from ...rules.names import short_name
from ...taskqueue.operator import summaries
from ..base import TaskPermissionMixin
from ..bulk.actions import ACTIONS, CANCEL, RETRY
from ..bulk.confirm import BulkActionAdmin, select_all

MAX_GROUPS = 50
MAX_MESSAGE = 2000


@dataclass(frozen=True, slots=True)
class FailureRow:
    fingerprint: str
    sample: UUID
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
    last: datetime
    last_text: str


@admin.register(FailureGroup)
class FailureAdmin(TaskPermissionMixin, BulkActionAdmin):
    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        scope = current_scope()
        groups = summaries.failure_groups(scope.using)
        context = {
            "groups": failure_rows(groups[:MAX_GROUPS], scope, can_see_payload=self.has_payload_permission(request)),
            "not_shown": max(0, len(groups) - MAX_GROUPS),
            "can_retry": RETRY.is_allowed(request),
            "can_cancel": CANCEL.is_allowed(request),
            "tasks_url": self.url("changelist", model="task"),
        }
        return self.render_page(request, "failures", _("Failures"), context)

    def get_post_urls(self) -> list[Any]:
        return [self.post_url("<str:fingerprint>/<str:name>/", self.group_action_view, "act")]

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
    groups: Sequence[summaries.FailureGroup], scope: Scope, *, can_see_payload: bool, with_locations: bool = True
) -> list[FailureRow]:
    tracebacks: dict[UUID, str] = {}
    if with_locations and groups:
        samples = Task.objects.using(scope.using).filter(pk__in=[each.sample for each in groups])
        tracebacks = dict(samples.values_list("pk", KT("last_error__traceback")))
    return [
        failure_row(each, tracebacks.get(each.sample) or "", scope.now, can_see_payload=can_see_payload)
        for each in groups
    ]


def location_of(frame: Frame) -> str:
    return one_line(f"{frame.short_file}:{frame.line} {frame.function}", 120)


def failure_row(group: summaries.FailureGroup, traceback: str, now: datetime, *, can_see_payload: bool) -> FailureRow:
    frame = innermost_project_frame(frames_of(traceback))
    return FailureRow(
        fingerprint=group.fingerprint,
        sample=group.sample,
        error=one_line(short_name(group.exception) or group.code, 80),
        message=one_line(general(redact_text(group.message[:MAX_MESSAGE])), 160) if can_see_payload else "",
        location=location_of(frame) if frame and can_see_payload else "",
        task=one_line(short_name(group.func_path), 80),
        path=one_line(group.func_path, 255),
        open=group.open,
        open_text=format_capped(group.open),
        hour=format_capped(group.failed_this_hour),
        day=format_capped(group.failed_today),
        failed=format_capped(group.failed),
        retrying=group.retrying,
        retrying_text=format_capped(group.retrying),
        first=group.first_failed_at,
        last=group.last_failed_at,
        last_text=format_relative(group.last_failed_at, now),
    )
