"""The page of queues: how each is doing; pause and resume."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _

from ... import taskqueue
from ...display.formatting import one_line
from ...display.scope import console_backend, console_database, current_scope, queue_names
from ...models import Queue
from ...taskqueue import alive_workers
from ...taskqueue.operator import summaries
from ..audit import log_action
from ..base import ConsoleAdmin
from ..bulk.confirm import reason_of
from .activity import SCALES, read_activity
from .operator_events import latest_operator_events
from .queue_summary import summarize_queues


@admin.register(Queue)
class QueueAdmin(ConsoleAdmin):
    def get_post_urls(self) -> list[Any]:
        return [
            self.post_url("<path:name>/pause/", self.pause_view, "pause"),
            self.post_url("<path:name>/resume/", self.resume_view, "resume"),
        ]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        scope = current_scope()
        workers = list(alive_workers(scope.backend).order_by("id")[:1000])
        depths, activity = summaries.depths(scope.using), read_activity(scope, SCALES["1h"])
        visible = self.has_payload_permission(request)
        queues = summarize_queues(scope, depths, workers, activity, can_see_payload=visible)
        context = {
            "queues": [(queue, self.url("pause", queue.key), self.url("resume", queue.key)) for queue in queues],
            "can_pause": self.has_perm(request, "pause_queue"),
            "operator_events": latest_operator_events(scope, "queue.", can_see_payload=visible),
            "tasks_url": self.url("changelist", model="task"),
            "now": scope.now,
            "live": True,
        }
        return self.render_page(request, "queues", _("Queues"), context)

    def pause_view(self, request: HttpRequest, name: str) -> HttpResponse:
        reason = self.checked_reason(request)
        if name not in queue_names(depth.queue for depth in summaries.depths(console_database())):
            raise Http404
        taskqueue.pause(name, by=request.user, reason=reason, backend=console_backend())
        log_action(request, Queue, [(name, one_line(name, 64))], "pause", reason)
        messages.success(request, _("Queue %(queue)s is paused.") % {"queue": one_line(name, 64)})
        return HttpResponseRedirect(self.url("changelist"))

    def resume_view(self, request: HttpRequest, name: str) -> HttpResponse:
        reason = self.checked_reason(request)
        if taskqueue.resume(name, by=request.user, reason=reason, backend=console_backend()):
            log_action(request, Queue, [(name, one_line(name, 64))], "resume", reason)
            messages.success(request, _("Queue %(queue)s is resumed.") % {"queue": one_line(name, 64)})
        else:
            messages.warning(request, _("Queue %(queue)s was not paused.") % {"queue": one_line(name, 64)})
        return HttpResponseRedirect(self.url("changelist"))

    def checked_reason(self, request: HttpRequest) -> str:
        """The reason given, of those who may pause queues."""
        if not (self.has_perm(request, "pause_queue") and self.has_view_permission(request)):
            raise PermissionDenied
        return reason_of(request)
