"""Queues: how each stands; pause and resume."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from .. import taskqueue
from ..models import OperatorEvent, Queue
from ..taskqueue import alive_workers, summaries
from . import audit
from .activity import SCALES, activity
from .base import ConsoleAdmin, names_of
from .place import Place, backend, here, queue_names, using
from .queue_rows import queue_rows
from .wording import line

HISTORY = 10
DECISIONS: dict[str, Any] = {
    "queue.paused": gettext_lazy("paused"),
    "queue.resumed": gettext_lazy("resumed"),
    "worker.stop_asked": gettext_lazy("asked to stop"),
}


@admin.register(Queue)
class QueueAdmin(ConsoleAdmin):
    def posts(self) -> list[Any]:
        return [
            self.post("<path:name>/pause/", self.pause, "pause"),
            self.post("<path:name>/resume/", self.resume, "resume"),
        ]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        place = here()
        decided = Queue.objects.using(place.using).in_bulk()
        workers = list(alive_workers(place.backend).order_by("id")[:1000])
        rows = queue_rows(summaries.depths(place.using), decided, workers, activity(place, SCALES["1h"]), place.now)
        context = {
            "queues": [(row, self.url("pause", row.key), self.url("resume", row.key)) for row in rows],
            "can_pause": self.allows(request, "pause_queue"),
            "history": history(place, "queue."),
            "tasks_url": self.url("changelist", model="task"),
        }
        return self.page(request, "queues", _("Queues"), context)

    def pause(self, request: HttpRequest, name: str) -> HttpResponse:
        reason = self.reason_of(request)
        if name not in queue_names(lane.queue for lane in summaries.depths(using())):
            raise Http404
        taskqueue.pause(name, by=request.user, reason=reason, backend=backend())
        audit.log(request, Queue, [(name, line(name, 64))], f"pause: {reason}" if reason else "pause")
        messages.success(request, _("Queue %(queue)s is paused.") % {"queue": line(name, 64)})
        return HttpResponseRedirect(self.url("changelist"))

    def resume(self, request: HttpRequest, name: str) -> HttpResponse:
        reason = self.reason_of(request)
        if taskqueue.resume(name, by=request.user, reason=reason, backend=backend()):
            audit.log(request, Queue, [(name, line(name, 64))], f"resume: {reason}" if reason else "resume")
            messages.success(request, _("Queue %(queue)s runs again.") % {"queue": line(name, 64)})
        else:
            messages.warning(request, _("Queue %(queue)s was not paused.") % {"queue": line(name, 64)})
        return HttpResponseRedirect(self.url("changelist"))

    def reason_of(self, request: HttpRequest) -> str:
        if not (self.allows(request, "pause_queue") and self.has_view_permission(request)):
            raise PermissionDenied
        return request.POST.get("reason", "").strip()


def history(place: Place, kind: str) -> list[dict[str, Any]]:
    """The latest decisions of operators."""
    events = list(OperatorEvent.objects.using(place.using).filter(kind__startswith=kind).order_by("-id")[:HISTORY])
    names = names_of({event.actor for event in events})
    return [
        {
            "ts": event.ts,
            "what": DECISIONS.get(event.kind, event.kind),
            "subject": line(event.subject, 128),
            "by": names[event.actor],
            "reason": line(event.reason, 200),
        }
        for event in events
    ]
