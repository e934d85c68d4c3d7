"""Failures, those that are alike together: what fails, since when, how often; retry or cancel a whole group."""

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

from ..models import FailureGroup, Task
from ..rules.fingerprint import general
from ..rules.frames import frames_of, innermost_project_frame
from ..taskqueue import summaries
from .base import TasksPermission
from .bulk import BulkAdmin, everything
from .deeds import CANCEL, DEEDS, RETRY
from .place import Place, here
from .redact import scrubbed
from .wording import ago, capped, line, short_class, short_path

SHOWN = 50


@dataclass(frozen=True, slots=True)
class Group:
    fingerprint: str
    sample: UUID
    error: str
    message: str
    where: str
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
class FailureAdmin(TasksPermission, BulkAdmin):
    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        place = here()
        alike = summaries.failure_groups(place.using)
        context = {
            "groups": groups(alike[:SHOWN], place, can_see_payload=self.has_payload_permission(request)),
            "not_shown": max(0, len(alike) - SHOWN),
            "can_retry": RETRY.is_allowed(request),
            "can_cancel": CANCEL.is_allowed(request),
            "tasks_url": self.url("changelist", model="task"),
        }
        return self.page(request, "failures", _("Failures"), context)

    def posts(self) -> list[Any]:
        return [self.post("<str:fingerprint>/<str:name>/", self.ask_about_group, "act")]

    def ask_about_group(self, request: HttpRequest, fingerprint: str, name: str) -> HttpResponse:
        """The confirmation page for a group: retry what failed and was not retried, or cancel what still tries."""
        deed = DEEDS.get(name)
        if deed not in (RETRY, CANCEL):
            raise Http404
        if not (deed.is_allowed(request) and self.has_view_permission(request)):
            raise PermissionDenied
        narrowed = {"status": "failed", "retried": "no"} if deed is RETRY else {"status": "retrying"}
        return self.ask(request, deed, everything(deed, request.user, {"alike": fingerprint, **narrowed}))


def groups(
    alike: Sequence[summaries.FailureGroup], place: Place, *, can_see_payload: bool, with_places: bool = True
) -> list[Group]:
    traces: dict[UUID, str] = {}
    if with_places and alike:
        samples = Task.objects.using(place.using).filter(pk__in=[each.sample for each in alike])
        traces = dict(samples.values_list("pk", KT("last_error__traceback")))
    return [group(each, traces.get(each.sample) or "", place.now, can_see_payload=can_see_payload) for each in alike]


def group(alike: summaries.FailureGroup, traceback: str, now: datetime, *, can_see_payload: bool) -> Group:
    frame = innermost_project_frame(frames_of(traceback))
    return Group(
        fingerprint=alike.fingerprint,
        sample=alike.sample,
        error=line(short_class(alike.exception) or alike.code, 80),
        message=line(general(scrubbed(alike.message[:2000])), 160) if can_see_payload else "",
        where=line(f"{frame.short_file}:{frame.line} {frame.function}", 120) if frame else "",
        task=line(short_path(alike.func_path), 80),
        path=line(alike.func_path, 255),
        open=alike.open,
        open_text=capped(alike.open),
        hour=capped(alike.failed_this_hour),
        day=capped(alike.failed_today),
        failed=capped(alike.failed),
        retrying=alike.retrying,
        retrying_text=capped(alike.retrying),
        first=alike.first_failed_at,
        last=alike.last_failed_at,
        last_text=ago(alike.last_failed_at, now),
    )
