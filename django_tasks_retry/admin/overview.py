"""The overview: the state of the whole queue and its problems, at a cost that does not grow with the stored tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from .. import guard, registry
from ..conf import OURS, configured_backends
from ..display import formatting
from ..display.formatting import format_capped, format_number, one_line
from ..display.scope import Scope, current_scope
from ..display.workers import knows_task, no_tasks_advice, runworker_command, unknown_task_advice
from ..models import Overview, Task, Worker
from ..registry import is_coroutine
from ..taskqueue import alive_workers, sound_workers
from ..taskqueue.retention.drop import partition_problems
from ..taskqueue.statistics import failure_groups, summaries
from ..taskqueue.statistics.snapshot import late_schedules
from ..taskqueue.statistics.summaries import Depth, serving
from .base import TaskPermissionMixin
from .failures import failure_rows
from .parts.charts import chart_context, chosen_scale, read_activity
from .queues import QueueSummary, summarize_queues

MAX_GROUPS = 5
SUMMED_GROUPS = 200
"""The number of newest groups whose failures are counted."""

RUNWORKER = "python manage.py runworker"
MAX_UNKNOWN = 5
"""The number of unknown functions that are named."""

MAX_LATE = 5
Card = tuple[str, ...]
"""Name, value, note, address and colour."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem, the command that solves it, the page that shows more, and the queue to resume."""

    text: str
    command: str = ""
    page: str = ""
    params: Mapping[str, str] = field(default_factory=dict)
    resume: str = ""

    @property
    def resume_name(self) -> str:
        return one_line(self.resume, 64)


@admin.register(Overview)
class OverviewAdmin(TaskPermissionMixin):
    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        scope, visible = current_scope(), self.has_payload_permission(request)
        depths = summaries.depths(scope.using)
        workers: list[Worker] = sound_workers(alive_workers(scope.backend).order_by("id")[:1000])
        activity = read_activity(scope, chosen_scale(request))
        queues = summarize_queues(scope, depths, workers, activity, can_see_payload=visible)
        heads = failure_groups.group_heads(scope.using)
        groups = failure_groups.describe_groups(heads[:MAX_GROUPS], scope.using)
        stored = summaries.stored(scope.using)
        problems = [
            *setup_problems(scope.using),
            *schedule_problems(scope),
            *problems_of(queues, depths, workers, scope),
        ]
        context = {
            **chart_context(activity),
            "is_empty": not stored,
            "now": scope.now,
            "cards": [*self.task_cards(scope, queues, workers), *self.total_cards(scope, heads, workers, stored)],
            "problems": [(problem, self.problem_url(problem), self.resume_url(problem)) for problem in problems],
            "queues": queues,
            "groups": failure_rows(groups, scope, can_see_payload=visible, with_locations=False),
            "failures_url": self.url("changelist", model="failuregroup"),
            "queues_url": self.url("changelist", model="queue"),
            "can_resume": self.has_perm(request, "pause_queue") and self.has_perm(request, "view_queue"),
            "live": True,
        }
        return self.render_page(request, "overview", _("Overview"), context)

    def task_cards(self, scope: Scope, queues: Sequence[QueueSummary], workers: Sequence[Worker]) -> list[Card]:
        tasks, most = Task.objects.using(scope.using), summaries.CAP + 1
        running = list(tasks.running().order_by("locked_by").values_list("func_path", flat=True)[:most])
        retrying = len(tasks.retrying().values_list("pk", flat=True)[:most])
        oldest = max((queue.oldest_wait for queue in queues), default=0.0)
        wait = formatting.format_duration(oldest) if oldest else _("none")
        ready = _("%(count)s ready") % {"count": format_capped(sum(queue.due for queue in queues))}
        slots, url = slots_note(running, workers), self.url("changelist", model="task")
        rows = [
            (_("Oldest wait"), wait, ready, "ready", "warn" if oldest > 60 else ""),
            (_("Running"), format_capped(len(running)), slots, "running", "busy" if running else ""),
            (_("Retrying"), format_capped(retrying), _("awaiting retry"), "retrying", "warn" if retrying else ""),
        ]
        return [(name, value, note, f"{url}?status={status}", tone) for name, value, note, status, tone in rows]

    def total_cards(
        self, scope: Scope, heads: Sequence[failure_groups.Head], workers: Sequence[Worker], stored: int
    ) -> list[Card]:
        failed = failure_groups.failed_since(heads[:SUMMED_GROUPS], scope.now - timedelta(days=1), scope.using)
        total = formatting.format_approximate(stored)
        rows = [
            (_("Failed"), format_capped(failed), _("in 24 hours"), "failuregroup", "bad" if failed else ""),
            (_("Workers"), format_number(len(workers)), _("alive"), "worker", "" if workers else "bad"),
            (_("Stored"), total, _("tasks"), "task", ""),
        ]
        return [(*texts, self.url("changelist", model=model), tone) for *texts, model, tone in rows]

    def problem_url(self, problem: Problem) -> str:
        """Return the page that shows more of the problem, if there is one."""
        query = f"?{urlencode(problem.params)}" if problem.params else ""
        return f"{self.url('changelist', model=problem.page)}{query}" if problem.page else ""

    def resume_url(self, problem: Problem) -> str:
        return self.url("resume", problem.resume, model="queue") if problem.resume else ""


def slots_note(running: Sequence[str], workers: Sequence[Worker]) -> str:
    """Count threads and coroutines apart: free coroutines do not help when all threads are busy."""
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


def problems_of(
    queues: Sequence[QueueSummary], depths: Sequence[Depth], workers: Sequence[Worker], scope: Scope
) -> Iterator[Problem]:
    """Find what keeps tasks from running. Without a worker, one line stands for all queues."""
    for queue in queues:
        yield from queue_problems(queue, has_workers=bool(workers))
    expired = summaries.expired_leases(scope.using)
    lost = ngettext(
        "%s task lost its worker and has not been recovered.",
        "%s tasks lost their worker and have not been recovered.",
        expired,
    ) % format_capped(expired)
    due = sum(queue.due for queue in queues if not queue.pause)
    if not workers and (due or expired):
        text = ngettext(
            "No worker is running: %(due)s task is waiting.", "No worker is running: %(due)s tasks are waiting.", due
        )
        sentences = [text % {"due": format_capped(due)}, *([lost] if expired else []), _("Start one:")]
        yield Problem(" ".join(sentences), RUNWORKER, "worker")
    for worker in workers:
        if not worker.tasks:
            text = _("Worker %(worker)s knows no task at all, so it runs none.") % {"worker": one_line(worker.pk, 128)}
            yield Problem(f"{text} {no_tasks_advice()}", page="worker")
    yield from unknown_task_problems(depths, [worker for worker in workers if worker.tasks])
    if workers and expired:
        yield Problem(f"{lost} {_('A running worker recovers such tasks within seconds:')}", RUNWORKER)


def queue_problems(queue: QueueSummary, *, has_workers: bool) -> Iterator[Problem]:
    ready = {"queue": queue.key, "status": "ready"}
    values = {"queue": queue.name, "due": queue.due_text, "count": format_number(queue.full)}
    if queue.due and queue.pause:
        text = _("Queue %(queue)s: %(due)s waiting, paused by %(by)s (%(reason)s).")
        values |= {"by": queue.pause.by, "reason": queue.pause.reason or "—"}
        yield Problem(text % values, page="task", params=ready, resume=queue.key)
    if not has_workers:
        return
    if queue.due and not (queue.pause or queue.workers):
        text = _("Queue %(queue)s: %(due)s waiting, but no running worker. Start one:")
        yield Problem(text % values, runworker_command(queue.key), "task", ready)
    if queue.full:
        text = _("Queue %(queue)s is full: %(count)s tasks wait, as many as OPTIONS['BACKLOG'] allows.")
        yield Problem(text % values, page="task", params={"queue": queue.key})
    if queue.is_failing:
        yield Problem(_("Queue %(queue)s: at least half of the latest attempts failed.") % values, page="failuregroup")


def unknown_task_problems(depths: Sequence[Depth], workers: Sequence[Worker]) -> Iterator[Problem]:
    """Find functions that due tasks call and no running worker of their queue knows."""
    unknown = {
        path: depth.queue
        for depth in depths
        for path in depth.func_paths
        if (known := serving(depth.queue, workers)) and not any(knows_task(worker, path) for worker in known)
    }
    for path, queue in list(unknown.items())[:MAX_UNKNOWN]:
        text = _("Queue %(queue)s: no running worker knows %(path)s.")
        sentence = text % {"path": one_line(path), "queue": one_line(queue, 64)}
        yield Problem(f"{sentence} {unknown_task_advice(path)}", page="task", params={"task": path, "status": "ready"})
    if len(unknown) > MAX_UNKNOWN:
        text = ngettext(
            "No running worker knows %s more function that tasks wait for.",
            "No running worker knows %s more functions that tasks wait for.",
            len(unknown) - MAX_UNKNOWN,
        )
        yield Problem(text % format_number(len(unknown) - MAX_UNKNOWN), page="worker")


def setup_problems(using: str) -> Iterator[Problem]:
    if not configured_backends():
        yield Problem(
            _("No backend of TASKS is RetryBackend: nothing is enqueued here, and no worker starts. Add one:"),
            f'TASKS = {{"default": {{"BACKEND": "{OURS}"}}}}',
        )
    if guard.missing(using):
        yield Problem(
            _("The database does not enforce the task contract, so no worker starts. Install what is missing:"),
            "python manage.py migrate",
        )
    for problem in partition_problems(using):
        yield Problem(_("History is kept in partitions. %(problem)s") % {"problem": problem})
    for module, why in registry.unimportable().items():
        text = _("%(module)s cannot be imported, so workers do not know the tasks in it (%(why)s).")
        yield Problem(text % {"module": one_line(module, 120), "why": one_line(why, 200)})


def schedule_problems(scope: Scope) -> Iterator[Problem]:
    """Find late schedules. Those that wait behind their previous run are not late."""
    for schedule in late_schedules(scope.backend, scope.using).only("next_at").order_by("next_at")[:MAX_LATE]:
        ago = formatting.format_relative(schedule.next_at or scope.now, scope.now)
        text = _("Schedule %(name)s was due %(ago)s, and no worker has enqueued it. Its page says why.")
        yield Problem(text % {"name": one_line(schedule.name, 128), "ago": ago}, page="schedule")
