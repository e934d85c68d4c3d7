"""The overview: the state of the whole queue and its problems, at a cost that does not grow with the stored tasks."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from ..analysis import doctor
from ..display.events import operator_event_rows
from ..display.formatting import format_approximate, format_capped, format_duration, format_number, one_line
from ..display.problems import Problem, find_problems
from ..display.scope import Standing, current_scope, read_standing
from ..models import Overview, Task, Worker
from ..registry import is_coroutine
from ..rules.names import worker_of
from ..rules.redact import redact_text
from ..selection.proposals import open_proposals
from ..taskqueue import statistics
from .base import TaskPermissionMixin
from .failures import failure_rows
from .parts.charts import backlog_context, chart_context, chosen_scale, read_activity
from .queues import queue_rows

MAX_GROUPS = 5
SUMMED_GROUPS = 200  # the number of newest groups whose failures are counted
Card = tuple[str, ...]  # name, value, note, address and colour


@admin.register(Overview)
class OverviewAdmin(TaskPermissionMixin):
    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        scope, visible = current_scope(), self.has_payload_permission(request)
        standing, activity = read_standing(scope), read_activity(scope, chosen_scale(request))
        heads = statistics.group_heads(scope.using)
        groups = statistics.describe_groups(heads[:MAX_GROUPS], scope.using)
        stored = statistics.count_stored(scope.using)
        problems = list(find_problems(standing, can_see_payload=visible))
        verdict = doctor.diagnose(standing, can_see_payload=visible, problems=problems, kinds=doctor.FEW_KINDS)
        context = {
            **chart_context(activity),
            "backlog": backlog_context(scope, activity, standing.due, standing.oldest_seconds),
            "is_empty": not stored,
            "verdict": stored and verdict,
            "now": scope.now,
            "cards": [*self.task_cards(standing), *self.total_cards(standing, heads, stored)],
            "problems": [(problem, self.problem_url(problem), self.resume_url(problem)) for problem in problems],
            "proposals": self.proposal_rows(request, scope.using),
            "queues": queue_rows(standing, activity, can_see_payload=visible),
            "groups": failure_rows(groups, scope, can_see_payload=visible, with_locations=False),
            "failures_url": self.url("changelist", model="failuregroup"),
            "queues_url": self.url("changelist", model="queue"),
            "can_pause": self.has_perm(request, "control_lane") and self.has_perm(request, "view_flowlimit"),
            "pause_url": self.url("pause", model="flowlimit"),
            "can_resume": self.has_perm(request, "pause_queue") and self.has_perm(request, "view_queue"),
            "live": True,
        }
        return self.render_page(request, "overview", _("Overview"), context)

    def proposal_rows(self, request: HttpRequest, using: str) -> list[dict[str, Any]]:
        """Return what agents ask for, with addresses for those who may do it."""
        proposals, visible = open_proposals(using), self.has_payload_permission(request)
        rows = operator_event_rows([each.event for each in proposals], can_see_payload=visible)
        return [
            {
                **row,
                "label": proposal.action.title,
                "words": one_line(redact_text(proposal.words), 400) if visible else "",
                "number": proposal.event.pk,
                "is_allowed": visible and proposal.action.is_allowed(request),
            }
            for proposal, row in zip(proposals, rows, strict=True)
        ]

    def task_cards(self, standing: Standing) -> list[Card]:
        tasks, most = Task.objects.using(standing.scope.using), statistics.CAP + 1
        leased = tasks.running().order_by("locked_by")
        running = list(leased.values_list("func_path", "locked_by")[:most])
        count = len(running) if len(running) < most else statistics.count_or_estimate(leased)
        retrying = statistics.count_or_estimate(tasks.retrying())
        oldest = standing.oldest_seconds
        wait = format_duration(oldest) if oldest else _("none")
        ready = _("%(count)s ready") % {"count": format_capped(standing.due)}
        slots, url = slots_note(running, standing.workers), self.url("changelist", model="task")
        rows = [
            (_("Oldest wait"), wait, ready, "ready", "warn" if oldest > 60 else ""),
            (_("Running"), format_capped(count), slots, "running", "busy" if running else ""),
            (_("Retrying"), format_capped(retrying), _("awaiting retry"), "retrying", "warn" if retrying else ""),
        ]
        return [(name, value, note, f"{url}?status={status}", tone) for name, value, note, status, tone in rows]

    def total_cards(self, standing: Standing, heads: Sequence[statistics.GroupHead], stored: int) -> list[Card]:
        scope, alive = standing.scope, len(standing.workers)
        begin = scope.now - timedelta(days=1)
        failed = statistics.failed_since(heads[:SUMMED_GROUPS], begin, scope.using)
        if failed > statistics.CAP:  # each group was counted up to there
            failed = max(failed, sum(each.failed for each in statistics.counts_since(begin, scope.using, "queue")))
        rows = [
            (_("Failed"), format_capped(failed), _("in 24 hours"), "failuregroup", "bad" if failed else ""),
            (_("Workers"), format_number(alive), _("alive"), "worker", "" if alive else "bad"),
            (_("Stored"), format_approximate(stored), _("tasks"), "task", ""),
        ]
        return [(*texts, self.url("changelist", model=model), tone) for *texts, model, tone in rows]

    def problem_url(self, problem: Problem) -> str:
        """Return the page that shows more of the problem, if there is one: of one task, where a person can answer."""
        if problem.kind == "unknown_effect":
            return self.url("change", problem.params["q"], model="task")
        query = f"?{urlencode(problem.params)}" if problem.params else ""
        return f"{self.url('changelist', model=problem.page)}{query}" if problem.page else ""

    def resume_url(self, problem: Problem) -> str:
        return self.url("resume", problem.resume, model="queue") if problem.resume else ""


def slots_note(running: Sequence[tuple[str, str | None]], workers: Sequence[Worker]) -> str:
    """Say how many slots are busy: threads and coroutines apart, for free coroutines do not help busy threads.

    Tasks that were claimed ahead, and those of workers that are gone, hold no slot.
    """
    threads, slots = sum(worker.threads for worker in workers), sum(worker.slots for worker in workers)
    alive = {worker.pk for worker in workers}
    held = [path for path, owner in running if worker_of(owner) in alive]
    if not threads:
        return _("of %(count)s slots") % {"count": format_number(slots)}
    coroutines = sum(is_coroutine(path) for path in held)
    busy = min(len(held) - coroutines, threads), min(coroutines, slots - threads)
    values = {
        "busy": format_number(busy[0]),
        "threads": format_number(threads),
        "coroutines": format_number(busy[1]),
        "slots": format_number(slots - threads),
    }
    text = _("%(busy)s of %(threads)s threads, %(coroutines)s of %(slots)s async")
    parts = [(_("%(busy)s of %(threads)s threads") if slots == threads else text) % values]
    if ahead := len(held) - sum(busy):
        parts.append(_("%(count)s claimed ahead") % {"count": format_number(ahead)})
    if lost := len(running) - len(held):
        parts.append(_("%(count)s of workers that are gone") % {"count": format_number(lost)})
    return ", ".join(parts)
