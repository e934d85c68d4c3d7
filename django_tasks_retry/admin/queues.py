"""The pages of queues and of lanes: how each stands; pause, resume and limit."""

from datetime import datetime
from functools import partial
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from .. import taskqueue
from ..display import formatting
from ..display.events import actor_names, describe_pauses, latest_operator_events
from ..display.redact import visible_reason
from ..display.scope import Standing, current_scope, queue_names, read_standing
from ..display.states import badge, lane_state, queue_state
from ..models import FlowLimit, Queue
from ..models.limits import FUNCTION, LANE, QUEUE, split
from ..rules.lanes.limits import LONGEST_WINDOW, MOST, WINDOW
from ..taskqueue.lanes import MOST_SHOWN, LaneSummary, summarize_lanes
from ..taskqueue.statistics import backlogs_since
from .base import ConsoleAdmin, Verb
from .parts.charts import SCALES, Activity, backlog_spark, read_activity, sparkline

MAX_LABEL = 264
SHORTEST_BACKLOG = 60  # seconds; a backlog that is worked off sooner needs no forecast
SEARCH_WORDS = {QUEUE: "queue", FUNCTION: "task", LANE: "lane"}  # the search word of the task list for each kind


@admin.register(Queue)
class QueueAdmin(ConsoleAdmin):
    def get_post_urls(self) -> list[Any]:
        return [
            self.post_url("<path:name>/pause/", self.pause_view, "pause", "pause_queue"),
            self.post_url("<path:name>/resume/", self.resume_view, "resume", "pause_queue"),
        ]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        scope, visible = current_scope(), self.has_payload_permission(request)
        rows = queue_rows(read_standing(scope), read_activity(scope, SCALES["1h"]), can_see_payload=visible)
        context = {
            "queues": [(row, self.url("pause", row["key"]), self.url("resume", row["key"])) for row in rows],
            "can_pause": self.has_perm(request, "pause_queue"),
            "operator_events": latest_operator_events(scope, "queue.", can_see_payload=visible),
            "now": scope.now,
            "live": True,
        }
        return self.render_page(request, "queues", _("Queues"), context)

    def pause_view(self, request: HttpRequest, name: str) -> HttpResponse:
        scope = current_scope()
        if name not in queue_names(scope):
            raise Http404
        done = _("Queue %(queue)s is paused.") % {"queue": formatting.one_line(name, 64)}
        return self.decide(request, name, "pause", partial(taskqueue.pause, name), done)

    def resume_view(self, request: HttpRequest, name: str) -> HttpResponse:
        values = {"queue": formatting.one_line(name, 64)}
        done, refused = _("Queue %(queue)s is resumed.") % values, _("Queue %(queue)s was not paused.") % values
        return self.decide(request, name, "resume", partial(taskqueue.resume, name), done, refused=refused)


def queue_rows(standing: Standing, activity: Activity, *, can_see_payload: bool) -> list[dict[str, Any]]:
    """Return how each queue stands, in words, and its attempts as a small chart."""
    scope, begin = standing.scope, activity.total[0].start
    backlogs: dict[str, dict[datetime, int]] = {}
    for each in backlogs_since(begin, scope.using, queue__in=[queue.name for queue in standing.queues]):
        backlogs.setdefault(each.queue, {})[each.minute] = each.due
    pauses = describe_pauses([each.pause for each in standing.queues if each.pause], can_see_payload=can_see_payload)
    return [
        {
            "key": queue.name,
            "name": formatting.one_line(queue.name, 64),
            "pause": pauses.get(queue.name),
            "badge": badge(queue_state(queue)),
            "due": formatting.format_capped(queue.due),
            "empty_in": formatting.format_duration(queue.seconds_to_empty)
            if queue.seconds_to_empty > SHORTEST_BACKLOG
            else "",
            "oldest": formatting.format_duration(queue.oldest_seconds) if queue.oldest_seconds else formatting.NO_VALUE,
            "workers": queue.workers,
            "rate": formatting.format_decimal(queue.per_minute),
            "failing": formatting.format_percentage(queue.failures, queue.attempts),
            "spark": sparkline(activity.for_queue(queue.name)),
            "backlog": backlog_spark(activity, backlogs.get(queue.name, {}), queue.due),
        }
        for queue in standing.queues
    ]


class LimitForm(forms.Form):
    """Limits that an operator sets. Empty fields leave the limits of the settings and the code."""

    concurrency = forms.IntegerField(label=gettext_lazy("Running at once"), min_value=1, max_value=MOST, required=False)
    starts = forms.IntegerField(label=gettext_lazy("Starts"), min_value=1, max_value=MOST, required=False)
    per = forms.FloatField(label=gettext_lazy("per (seconds)"), min_value=0.1, max_value=LONGEST_WINDOW, required=False)

    @property
    def rate(self) -> tuple[int, float] | None:
        starts, per = self.cleaned_data["starts"], self.cleaned_data["per"]
        return (starts, per or WINDOW) if starts or per else None


@admin.register(FlowLimit)
class LaneAdmin(ConsoleAdmin):
    def get_post_urls(self) -> list[Any]:
        return [
            self.post_url("pause/", self.pause_view, "pause"),
            self.post_url("resume/", self.resume_view, "resume"),
            self.post_url("limit/", self.limit_view, "limit", "control_lane"),
        ]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        scope, search = current_scope(), request.GET.get("q", "")[:100]
        visible = self.has_payload_permission(request)
        lanes = summarize_lanes(scope.backend, search)
        context = {
            "lanes": [lane_row(lane, scope.now, can_see_payload=visible) for lane in lanes],
            "is_cut": len(lanes) == MOST_SHOWN,
            "search": formatting.one_line(search, 100),
            "can_control": self.has_perm(request, "control_lane"),
            "form": LimitForm(auto_id=False),
            "urls": {name: self.url(name) for name in ("pause", "resume", "limit")},
            "operator_events": latest_operator_events(scope, "lane.", can_see_payload=visible),
            "now": scope.now,
            "live": True,
        }
        return self.render_page(request, "lanes", _("Lanes"), context)

    def pause_view(self, request: HttpRequest) -> HttpResponse:
        return self.change_lane(request, "pause", partial(taskqueue.pause, kind=LANE))

    def resume_view(self, request: HttpRequest) -> HttpResponse:
        return self.change_lane(request, "resume", partial(taskqueue.resume, kind=LANE))

    def limit_view(self, request: HttpRequest) -> HttpResponse:
        form = LimitForm(request.POST)
        if not form.is_valid():
            messages.error(request, _("Enter whole numbers of 1 or more, and a window in seconds."))
            return HttpResponseRedirect(self.url("changelist"))
        limits = {"concurrency": form.cleaned_data["concurrency"], "rate": form.rate}
        return self.change_lane(request, "limit", partial(taskqueue.limit_lane, **limits))

    def change_lane(self, request: HttpRequest, action: str, verb: Verb) -> HttpResponse:
        """Change the lane that the form names. Pausing a queue needs the permission for queues."""
        label = request.POST.get("lane", "")[:MAX_LABEL].strip()
        is_pause_of_queue = action != "limit" and split(label)[0] == QUEUE
        if not self.has_perm(request, "pause_queue" if is_pause_of_queue else "control_lane"):
            raise PermissionDenied
        done = _("Lane %(lane)s was changed.") % {"lane": formatting.one_line(label, 100)}
        refused = _("Lane %(lane)s was not paused.") % {"lane": formatting.one_line(label, 100)}
        return self.decide(request, label, action, partial(verb, label), done, refused=refused)


def lane_row(lane: LaneSummary, now: datetime, *, can_see_payload: bool) -> dict[str, Any]:
    state, limit = lane.state, lane.limit
    pause = describe_pauses([state], can_see_payload=can_see_payload).get(state.name)
    return {
        "label": lane.label,
        "name": formatting.one_line(lane.label, 100),
        "search": f"{SEARCH_WORDS[state.kind]}:{state.name}",
        "badge": badge(lane_state(lane)),
        "running": str(lane.running) if limit.most_running is None else f"{lane.running} / {limit.most_running}",
        "started": "" if limit.starts is None else f"{lane.started} / {limit.starts}",
        "window": "" if limit.starts is None else formatting.format_duration(limit.per),
        "waiting": formatting.format_capped(lane.waiting),
        "oldest": formatting.format_elapsed(lane.waiting_since, now) if lane.waiting_since else formatting.NO_VALUE,
        "is_queue": state.kind == QUEUE,
        "pause": pause,
        "decided_by": actor_names({state.decided_by})[state.decided_by] if state.is_decided else "",
        "decided_for": visible_reason(state.decided_for, can_see_payload=can_see_payload) if state.is_decided else "",
    }
