"""The page of one task: its facts, steps and events; retry, cancel or run it now."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote
from uuid import UUID

from django.contrib import messages
from django.contrib.admin.utils import unquote
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from ..analysis import late
from ..conf import configured_backends
from ..display.events import EVENT_NAMES, actor_names, as_mapping, event_summary, format_traceback, log_of
from ..display.explain import explain
from ..display.formatting import format_elapsed, one_line, printable
from ..display.redact import redacted_arguments, redacted_json
from ..display.scope import Scope, console_backend, console_database, current_scope
from ..display.states import badge, retry_of_task, task_facts, task_state
from ..errors import IllegalMove
from ..models import Step, Task, TaskEvent, TaskResult
from ..rules.names import short_id, worker_of
from ..rules.redact import redact_text
from ..rules.status import Status
from ..rules.transitions import EventKind
from ..selection.actions import ACTIONS, CANCEL, RETRY, Action
from ..taskqueue.reading import read_row, read_rows, unreadable_columns
from ..taskqueue.workflows import ASKED, SIGNAL, StepKind, answer_effect, as_batch, batch_counts, unknown_effects
from .base import ConsoleAdmin, reason_of
from .batches import related_tasks, retries_of
from .bulk import paused_warning, run_action
from .parts import filters
from .parts.selection import paused_queues_of
from .parts.timeline import read_progress, retry_preview, timeline
from .parts.waterfall import waterfall

MAX_EVENTS = 100
MAX_STEPS = 200
TASK_ID = re.compile(r"\b([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b")
KINDS: dict[str, str | Promise] = {
    StepKind.STEP: gettext_lazy("step"),
    StepKind.SLEEP: gettext_lazy("sleep"),
    StepKind.WAIT: gettext_lazy("deadline"),
    StepKind.SIGNAL: gettext_lazy("signal"),
    StepKind.BATCH: gettext_lazy("batch"),
    StepKind.MEMBERS: gettext_lazy("members"),
    StepKind.INTENT: gettext_lazy("intent"),
    StepKind.EFFECT: gettext_lazy("effect"),
}


class SingleActionAdmin(ConsoleAdmin):
    def get_action_urls(self) -> list[Any]:
        return [
            self.post_url(f"<path:object_id>/{name}/", self.action_view(action), name, action.permission)
            for name, action in ACTIONS.items()
        ] + [self.post_url("<path:object_id>/answer/", self.answer_view, "answer", "retry_task")]

    def answer_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Take a person's word on whether an unknown effect happened."""
        task, happened = self.get_task_or_404(object_id), request.POST.get("happened") == "yes"
        verb = partial(answer_effect, task, request.POST.get("effect", ""), happened=happened)
        done = _("The task goes on.")
        return self.decide(request, str(task.pk), "answer", verb, done, to=self.url("change", task.pk))

    def get_task_or_404(self, object_id: str, scope: Scope | None = None) -> Task:
        key = filters.parse_uuid(unquote(object_id))
        task: Task | None = read_row(Task.objects.using((scope or current_scope()).using), key) if key else None
        if task is None:
            raise Http404
        return task

    def action_view(self, action: Action) -> Any:
        """Return the view that runs an action on one task. A second retry asks first."""

        def view(request: HttpRequest, object_id: str) -> HttpResponse:
            task = self.get_task_or_404(object_id)
            retries = retries_of(task, console_database()) if action is RETRY else None
            if retries and "again" not in request.POST:
                return self.ask_again_view(request, task, retries)
            return HttpResponseRedirect(self.url("change", self.run_on_one(request, action, task)))

        return view

    def ask_again_view(self, request: HttpRequest, task: Task, retries: dict[str, Any]) -> HttpResponse:
        """Show the outcome of the earlier retries and ask. This changes nothing."""
        count = len(retries["tasks"])
        question = ngettext(
            "This task has already been retried:", "This task has already been retried %(count)s times:", count
        )
        context = {
            "question": question % {"count": f"{count}+" if retries["more"] else count},
            "retries": retries,
            "reason": reason_of(request),
            "resume": "resume" in request.POST,
            "before": request.POST.get("before", ""),
            "action_url": self.url("retry", task.pk),
            "back_url": self.url("change", task.pk),
        }
        return self.render_page(request, "retry_again", _("Retry the task again?"), context)

    def run_on_one(self, request: HttpRequest, action: Action, task: Task) -> Any:
        """Run the action, report the outcome, and return the id of the task to show next."""
        try:
            before = request.POST.get("before", "")
            wishes = {"resume": bool(before) or "resume" in request.POST, "before": before} if action is RETRY else {}
            done = run_action(action, [task.pk], request, reason_of(request), console_backend(), **wishes)
        except IllegalMove as error:
            messages.error(request, str(error))
            return task.pk
        if not done:
            messages.warning(request, refusal(action, task))
            return task.pk
        messages.success(request, action.done_message(1))
        if action is not CANCEL:
            for queue in paused_queues_of([task.pk], console_database()):
                messages.warning(request, paused_warning(queue))
        copies = Task.objects.using(console_database()).filter(retry_of=task.pk).order_by("-pk")
        return (copies.values_list("pk", flat=True).first() if action is RETRY else None) or task.pk


def refusal(action: Action, task: Task) -> str:
    if action is RETRY and task.backend not in configured_backends():
        return _("It cannot be retried: the backend %(backend)s is not in TASKS, so no worker would run it.") % {
            "backend": one_line(task.backend, 64)
        }
    if action is RETRY and (columns := unreadable_columns(task)):
        return _("It cannot be retried: %(columns)s cannot be read.") % {"columns": ", ".join(columns)}
    return _("Nothing was changed: the task is %(why)s.") % {"why": action.skip_reason}


def detail_context(task: Task, scope: Scope, request: HttpRequest, *, can_see_payload: bool) -> dict[str, Any]:
    newest = read_rows(TaskEvent.objects.using(scope.using).filter(task_id=task.pk).order_by("-id")[: MAX_EVENTS + 1])
    events, is_cut = newest[:MAX_EVENTS][::-1], len(newest) > MAX_EVENTS
    steps = read_rows(Step.objects.using(scope.using).filter(task_id=task.pk).order_by("id")[:MAX_STEPS])
    site = request.resolver_match.namespace if request.resolver_match else "admin"
    links, explanation = task_links(task, site), explain(task, events, scope, can_see_payload=can_see_payload)
    drawing, retries = waterfall(task.run_id, scope, task, steps), retries_of(task, scope.using)
    return {
        "task": task,
        "schedule_name": task.schedule_id and one_line(task.schedule_id, 128),
        "func_path": printable(task.func_path, 255),
        "badge": badge(task_state(task, scope.now)),
        "explanation": explanation,
        "sentence": linked(explanation.sentence, scope.using, site),
        "actions": [
            action for action in ACTIONS.values() if action.is_possible(task.status) and action.is_allowed(request)
        ],
        "timeline": timeline(task, events, scope.now, steps, is_cut=is_cut),
        "steps": step_rows(steps, events, request, scope.using, can_see_payload=can_see_payload),
        "events": event_rows(task, events, can_see_payload=can_see_payload),
        "events_cut": is_cut and MAX_EVENTS,
        "facts": [
            (label, short_id(value) if isinstance(value, UUID) else value, links.get(name, ""))
            for name, label, value in task_facts(task, scope.now, can_see_payload=can_see_payload)
        ],
        "unreadable": unreadable_columns(task),
        "unknown_effects": [each for each in unknown_effects(scope.using, [task]) if each.is_asked],
        "late": late.rows_of(late.why_late(task, scope)) if "late" in request.GET else None,
        "preview": retry_preview(task, scope.now),
        "retries": retries,
        "safety": safety_on_page(task, events, retries) if RETRY.is_possible(task.status) else None,
        "signal": signal_of(task),
        "related": related_tasks(task, scope.using),
        "waterfall": drawing,
        "now": scope.now,
        "live": not task.is_finished or bool(drawing and drawing["is_open"]),
        **(payload_context(task, scope, request) if can_see_payload else {}),
    }


def safety_on_page(task: Task, events: Sequence[TaskEvent], retries: Mapping[str, Any] | None) -> dict[str, Any]:
    state, reasons = retry_of_task(task, events, len(retries["tasks"]) if retries else 0)
    return {"badge": badge(state), "reasons": reasons}


def linked(sentence: str, using: str, site: str) -> SafeString:
    """Return the sentence with each id of a stored task as a link to its page."""
    parts = TASK_ID.split(sentence)
    known = set(Task.objects.using(using).filter(pk__in=parts[1::2]).values_list("pk", flat=True)) if parts[1:] else ()
    url = partial(reverse, "admin:django_tasks_retry_task_change", current_app=site)
    links = {str(pk): format_html('<a href="{}">{}</a>', url(args=[pk]), short_id(pk)) for pk in known}
    return format_html_join("", "{}", ([links.get(part, part)] for part in parts))


def signal_of(task: Task) -> str:
    """Return the signal for which the task waits; empty if it waits for none."""
    waits_for = task.waits_for or ""
    is_question = waits_for.startswith(SIGNAL + ASKED)  # of an effect, which has buttons of its own
    return waits_for.removeprefix(SIGNAL) if waits_for.startswith(SIGNAL) and not is_question else ""


def edits_of(task: Task, using: str, request: HttpRequest) -> list[tuple[str, str, str]]:
    """Return the arguments that differ from those of the task that this one retries: name, before and after."""
    before: Task | None = read_row(Task.objects.using(using), task.retry_of_id) if task.retry_of_id else None
    if before is None:
        return []
    old, new = dict(redacted_arguments(before, request)), dict(redacted_arguments(task, request))
    names = dict.fromkeys([*old, *new])
    return [(name, old.get(name, ""), new.get(name, "")) for name in names if old.get(name) != new.get(name)]


def payload_context(task: Task, scope: Scope, request: HttpRequest) -> dict[str, Any]:
    """Return the call, the outcome and the last error, which need a permission of their own."""
    error = task.last_error or {}
    outcome = read_row(TaskResult.objects.using(scope.using), task.pk) if task.is_finished else None
    return {
        "arguments": redacted_arguments(task, request),
        "edits": edits_of(task, scope.using, request),
        "has_result": outcome is not None and task.status == Status.SUCCESS,
        "result": redacted_json(outcome.result, request) if outcome else "",
        "error_title": error and one_line(f"{error.get('exception') or error.get('code')}", 200),
        "error_message": printable(redact_text(str(error.get("message") or "")), 4000),
        "error_traceback": format_traceback(str(error.get("traceback") or "")),
        "metadata": redacted_json(task.metadata, request) if task.metadata else "",
        "progress": read_progress(task.progress),
        "progress_text": redacted_json(task.progress, request) if task.progress else "",
    }


def event_rows(task: Task, events: Sequence[TaskEvent], *, can_see_payload: bool) -> list[dict[str, Any]]:
    names = actor_names({event.actor for event in events})
    rows, previous = [], task.created_at
    for event in events:
        if event.kind == EventKind.REQUEUED:
            continue  # the failure before it says when the next attempt is due
        error = as_mapping(as_mapping(event.data).get("error"))
        row = {
            "ts": event.ts,
            "name": str(EVENT_NAMES.get(event.kind, one_line(event.kind))),
            "kind": event.kind.partition(".")[2],
            "attempt": event.attempt,
            "actor": names[event.actor],
            "elapsed": format_elapsed(previous, event.ts),
            "summary": event_summary(event, error, can_see_payload=can_see_payload),
        }
        if can_see_payload:
            row["is_edited"] = bool(as_mapping(event.data).get("edited"))
            row |= {"traceback": format_traceback(str(error.get("traceback") or "")), "log": log_of(event)}
        rows.append(row)
        previous = event.ts
    return rows


def task_links(task: Task, site: str) -> dict[str, str]:
    """Map the names of facts to the pages of this admin site that show more."""
    url = partial(reverse, current_app=site)
    worker = worker_of(task.locked_by)
    return {
        "queue": f"{url('admin:django_tasks_retry_task_changelist')}?{urlencode({'queue': task.queue})}",
        "worker": f"{url('admin:django_tasks_retry_worker_changelist')}#worker-{quote(worker, safe='')}",
        "run": url("admin:django_tasks_retry_task_run", args=[task.run_id]),
        "batch": url("admin:django_tasks_retry_task_batch", args=[task.batch]) if task.batch else "",
    }


def step_rows(
    steps: list[Step], events: Sequence[TaskEvent], request: HttpRequest, using: str, *, can_see_payload: bool
) -> list[dict[str, Any]]:
    left = {name for event in events for name in as_mapping(event.data).get("left_behind") or ()}
    rows = []
    for step in steps:
        batch = (
            as_batch(as_mapping(step.result).get("batch")) if step.kind in (StepKind.BATCH, StepKind.MEMBERS) else None
        )
        row = {
            "ts": step.ts,
            "name": one_line(step.name.removesuffix(":until"), 220),
            "key": step.name,
            "kind": str(KINDS.get(step.kind, one_line(step.kind))),
            "attempt": step.attempt,
            "is_left_behind": step.name in left,
        }
        if batch is not None:
            row |= {"batch": batch, "counts": batch_counts(batch, using)}
        elif can_see_payload and step.result is not None:
            row["result"] = redacted_json(step.result, request)
        rows.append(row)
    return rows
