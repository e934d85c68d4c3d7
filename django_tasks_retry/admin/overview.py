"""Overview: how the queue stands, on one page, at a cost that does not grow with what is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from ..models import Overview, Queue, Task, Worker
from ..taskqueue import alive_workers, summaries
from .activity import SCALES, activity
from .base import TasksPermission
from .charts import attempts_chart
from .failures import Group, groups
from .place import Place, here
from .queue_rows import QueueRow, concerns, queue_rows
from .wording import about, capped, duration, number

TOP = 5


@dataclass(frozen=True, slots=True)
class Card:
    name: str
    value: str
    note: str
    url: str
    tone: str = "calm"


@admin.register(Overview)
class OverviewAdmin(TasksPermission):
    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        place = here()
        chosen = request.GET.get("span", "1h")
        chosen = chosen if chosen in SCALES else "1h"
        return self.page(request, "overview", _("Overview"), self.context(request, place, chosen))

    def context(self, request: HttpRequest, place: Place, chosen: str) -> dict[str, Any]:
        depths = summaries.depths(place.using)
        decided = Queue.objects.using(place.using).in_bulk()
        workers: list[Worker] = list(alive_workers(place.backend).order_by("id")[:1000])
        done = activity(place, SCALES[chosen])
        rows = queue_rows(depths, decided, workers, done, place.now)
        alike, stored = summaries.failure_groups(place.using), summaries.stored(place.using)
        return {
            "is_empty": not stored,
            "now": place.now,
            "cards": self.cards(place, rows, workers, alike, stored),
            "concerns": concerns(rows, depths, workers, summaries.expired_leases(place.using)),
            "chart": attempts_chart(done.everything),
            "scale": done.scale,
            "scales": [(name, scale.label, name == chosen) for name, scale in SCALES.items()],
            "queues": rows,
            "tasks_url": self.url("changelist", model="task"),
            "failures_url": self.url("changelist", model="failuregroup"),
            "queues_url": self.url("changelist", model="queue"),
            "groups": self.newest(alike, place, request),
        }

    def newest(self, alike: Sequence[summaries.FailureGroup], place: Place, request: HttpRequest) -> list[Group]:
        return groups(alike[:TOP], place, can_see_payload=self.has_payload_permission(request), with_places=False)

    def cards(
        self,
        place: Place,
        rows: Sequence[QueueRow],
        workers: Sequence[Worker],
        alike: Sequence[summaries.FailureGroup],
        stored: int,
    ) -> list[Card]:
        tasks = Task.objects.using(place.using)
        running = len(tasks.running().order_by("locked_by").values_list("pk", flat=True)[: summaries.CAP + 1])
        retrying = len(tasks.retrying().values_list("pk", flat=True)[: summaries.CAP + 1])
        oldest, slots = max((row.oldest for row in rows), default=0.0), sum(worker.slots for worker in workers)
        failed, ready = sum(group.failed_today for group in alike), sum(row.due for row in rows)
        notes = {
            "ready": _("%(count)s ready") % {"count": capped(ready)},
            "slots": _("of %(count)s slots") % {"count": number(slots)},
        }
        return [
            Card(_("Oldest wait"), wait_text(oldest), notes["ready"], self.list("ready"), tone(oldest > 60, "warn")),
            Card(_("Running"), capped(running), notes["slots"], self.list("running"), tone(running, "busy")),
            Card(
                _("Retrying"), capped(retrying), _("wait to try again"), self.list("retrying"), tone(retrying, "warn")
            ),
            Card(_("Failed"), capped(failed), _("in 24 hours"), self.page_of("failuregroup"), tone(failed, "bad")),
            Card(_("Workers"), number(len(workers)), _("alive"), self.page_of("worker"), tone(not workers, "bad")),
            Card(_("Stored"), about(stored), _("tasks"), self.page_of("task")),
        ]

    def page_of(self, model: str) -> str:
        return self.url("changelist", model=model)

    def list(self, standing: str) -> str:
        return f"{self.page_of('task')}?{urlencode({'status': standing})}"


def wait_text(seconds: float) -> str:
    return duration(seconds) if seconds else _("none")


def tone(is_remarkable: object, remarkable: str) -> str:
    return remarkable if is_remarkable else "calm"
