"""The page of lanes: what is full, paused or tripped; pause, resume and limit."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ... import taskqueue
from ...display.formatting import one_line
from ...display.scope import console_backend, current_scope
from ...errors import TaskQueueError
from ...models import LaneState
from ...rules.lanes.limits import LONGEST_WINDOW, MOST
from ...taskqueue.lanes.summaries import MOST_SHOWN, summarize_lanes
from ..audit import log_action
from ..base import ConsoleAdmin
from ..bulk.confirm import reason_of
from ..pages.operator_events import latest_operator_events
from .rows import row_of

MAX_LABEL = 264


class LimitForm(forms.Form):
    """What a person may decide. Left empty, it is as the settings and the code say."""

    running = forms.IntegerField(label=gettext_lazy("Running at once"), min_value=1, max_value=MOST, required=False)
    starts = forms.IntegerField(label=gettext_lazy("Starts"), min_value=1, max_value=MOST, required=False)
    per = forms.FloatField(
        label=gettext_lazy("in so many seconds"), min_value=0.1, max_value=LONGEST_WINDOW, required=False
    )


@admin.register(LaneState)
class LaneAdmin(ConsoleAdmin):
    def get_post_urls(self) -> list[Any]:
        return [
            self.post_url("pause/", self.pause_view, "pause"),
            self.post_url("resume/", self.resume_view, "resume"),
            self.post_url("limit/", self.limit_view, "limit"),
        ]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        scope, search = current_scope(), request.GET.get("q", "")[:100]
        visible = self.has_payload_permission(request)
        lanes = summarize_lanes(scope.backend, search)
        context = {
            "lanes": [row_of(lane, can_see_payload=visible) for lane in lanes],
            "is_cut": len(lanes) == MOST_SHOWN,
            "search": one_line(search, 100),
            "can_control": self.has_perm(request, "control_lane"),
            "form": LimitForm(auto_id=False),
            "urls": {name: self.url(name) for name in ("pause", "resume", "limit")},
            "tasks_url": self.url("changelist", model="task"),
            "operator_events": latest_operator_events(scope, "lane.", can_see_payload=visible),
            "now": scope.now,
            "live": True,
        }
        return self.render_page(request, "lanes", _("Lanes"), context)

    def pause_view(self, request: HttpRequest) -> HttpResponse:
        label, reason = self.checked(request)
        return self.done(request, label, "pause", reason, lambda wish: taskqueue.pause_lane(label, **wish))

    def resume_view(self, request: HttpRequest) -> HttpResponse:
        label, reason = self.checked(request)
        return self.done(request, label, "resume", reason, lambda wish: taskqueue.resume_lane(label, **wish))

    def limit_view(self, request: HttpRequest) -> HttpResponse:
        label, reason = self.checked(request)
        form = LimitForm(request.POST)
        if not form.is_valid():
            messages.error(request, _("Give whole numbers of 1 or more, and a window in seconds."))
            return HttpResponseRedirect(self.url("changelist"))
        limits = form.cleaned_data
        return self.done(request, label, "limit", reason, lambda wish: taskqueue.limit_lane(label, **limits, **wish))

    def done(self, request: HttpRequest, label: str, action: str, reason: str, act: Any) -> HttpResponse:
        try:
            act({"by": request.user, "reason": reason, "backend": console_backend()})
        except TaskQueueError as error:
            messages.error(request, one_line(error, 300))
        else:
            log_action(request, LaneState, [(label[:128], one_line(label, 100))], action, reason)
            messages.success(request, _("Lane %(lane)s is changed.") % {"lane": one_line(label, 100)})
        return HttpResponseRedirect(self.url("changelist"))

    def checked(self, request: HttpRequest) -> tuple[str, str]:
        """The lane and the reason given, of those who may control lanes."""
        if not (self.has_perm(request, "control_lane") and self.has_view_permission(request)):
            raise PermissionDenied
        return request.POST.get("lane", "")[:MAX_LABEL].strip(), reason_of(request)
