"""The overview: the state of the whole queue on one page, at a cost that does not grow with what is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from ...display.eligible_workers import is_coroutine
from ...display.formatting import format_approximate, format_capped, format_duration, format_number
from ...display.scope import Scope, current_scope
from ...models import Overview, Task, Worker
from ...taskqueue import alive_workers
from ...taskqueue.operator import failure_groups, summaries
from ..base import TaskPermissionMixin
from ..schedules.problems import schedule_problems
from .activity import SCALES, read_activity
from .charts import attempts_chart
from .failures import failure_rows
from .queue_summary import Problem, QueueSummary, find_problems, summarize_queues
from .setup_problems import setup_problems

MAX_GROUPS = 5
SUMMED_GROUPS = 200
"""How many groups the number of failures is taken from."""


@dataclass(frozen=True, slots=True)
class Card:
    name: str
    value: str
    note: str
    url: str
    tone: str


@admin.register(Overview)
class OverviewAdmin(TaskPermissionMixin):
    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        scope = current_scope()
        scale = request.GET.get("span", "1h")
        visible = self.has_payload_permission(request)
        context = self.overview_context(scope, scale if scale in SCALES else "1h", can_see_payload=visible)
        context["can_resume"] = self.has_perm(request, "pause_queue") and self.has_perm(request, "view_queue")
        return self.render_page(request, "overview", _("Overview"), context)

    def overview_context(self, scope: Scope, chosen: str, *, can_see_payload: bool) -> dict[str, Any]:
        depths = summaries.depths(scope.using)
        workers: list[Worker] = list(alive_workers(scope.backend).order_by("id")[:1000])
        activity = read_activity(scope, SCALES[chosen])
        queues = summarize_queues(scope, depths, workers, activity, can_see_payload=can_see_payload)
        heads, stored = failure_groups.group_heads(scope.using), summaries.stored(scope.using)
        groups = failure_groups.describe_groups(heads[:MAX_GROUPS], scope.using)
        return {
            "is_empty": not stored,
            "now": scope.now,
            "cards": [
                *self.queue_cards(scope, queues, workers),
                *self.total_cards(failed_lately(heads, scope), workers, stored),
            ],
            "problems": [
                (problem, self.problem_url(problem), self.resume_url(problem))
                for problem in (
                    *setup_problems(scope.using),
                    *schedule_problems(scope),
                    *find_problems(queues, depths, workers, summaries.expired_leases(scope.using)),
                )
            ],
            "chart": attempts_chart(activity.total),
            "scale": activity.scale,
            "scales": [(name, scale.label, name == chosen) for name, scale in SCALES.items()],
            "queues": queues,
            "groups": failure_rows(groups, scope, can_see_payload=can_see_payload, with_locations=False),
            "tasks_url": self.changelist_url("task"),
            "failures_url": self.changelist_url("failuregroup"),
            "queues_url": self.changelist_url("queue"),
            "live": True,
        }

    def queue_cards(self, scope: Scope, queues: Sequence[QueueSummary], workers: Sequence[Worker]) -> list[Card]:
        tasks = Task.objects.using(scope.using)
        running = list(tasks.running().order_by("locked_by").values_list("func_path", flat=True)[: summaries.CAP + 1])
        retrying = len(tasks.retrying().values_list("pk", flat=True)[: summaries.CAP + 1])
        oldest = max((queue.oldest_wait for queue in queues), default=0.0)
        ready = _("%(count)s ready") % {"count": format_capped(sum(queue.due for queue in queues))}
        wait, slots = format_duration(oldest) if oldest else _("none"), slots_note(running, workers)
        waiting, url = _("awaiting retry"), self.task_list_url
        return [
            Card(_("Oldest wait"), wait, ready, url("ready"), tone("warn", oldest > 60)),
            Card(_("Running"), format_capped(len(running)), slots, url("running"), tone("busy", running)),
            Card(_("Retrying"), format_capped(retrying), waiting, url("retrying"), tone("warn", retrying)),
        ]

    def total_cards(self, failed: int, workers: Sequence[Worker], stored: int) -> list[Card]:
        alive, url = format_number(len(workers)), self.changelist_url
        return [
            Card(_("Failed"), format_capped(failed), _("in 24 hours"), url("failuregroup"), tone("bad", failed)),
            Card(_("Workers"), alive, _("alive"), url("worker"), tone("bad", not workers)),
            Card(_("Stored"), format_approximate(stored), _("tasks"), url("task"), tone("calm", stored)),
        ]

    def changelist_url(self, model: str) -> str:
        return self.url("changelist", model=model)

    def problem_url(self, problem: Problem) -> str:
        """The page that shows more of it; empty where there is none."""
        query = f"?{urlencode(problem.params)}" if problem.params else ""
        return f"{self.changelist_url(problem.page)}{query}" if problem.page else ""

    def resume_url(self, problem: Problem) -> str:
        return self.url("resume", problem.resume, model="queue") if problem.resume else ""

    def task_list_url(self, status: str) -> str:
        return f"{self.changelist_url('task')}?{urlencode({'status': status})}"


def slots_note(running: Sequence[str], workers: Sequence[Worker]) -> str:
    """Threads and coroutines apart: full threads are full, however many coroutines could still run."""
    threads, slots = sum(worker.threads for worker in workers), sum(worker.slots for worker in workers)
    if not threads:
        return _("of %(count)s slots") % {"count": format_number(slots)}
    coroutines = sum(is_coroutine(path) for path in running)
    values = {
        "busy": format_number(len(running) - coroutines),
        "threads": format_number(threads),
        "coroutines": format_number(coroutines),
        "slots": format_number(slots - threads),
    }
    if slots == threads:
        return _("%(busy)s of %(threads)s threads") % values
    return _("%(busy)s of %(threads)s threads, %(coroutines)s of %(slots)s async") % values


def failed_lately(heads: Sequence[failure_groups.Head], scope: Scope) -> int:
    """How many failed within a day, of the groups that failed last."""
    return failure_groups.failed_since(heads[:SUMMED_GROUPS], scope.now - timedelta(days=1), scope.using)


def tone(name: str, condition: object) -> str:
    """The card's colour where the condition holds."""
    return name if condition else "calm"
