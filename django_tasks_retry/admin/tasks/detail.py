"""The page of one task: the context of its template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from ...display.actors import actor_names
from ...display.display_status import badge, display_status_of
from ...display.events import EVENT_NAMES, as_mapping, event_summary, log_of
from ...display.explain import explain
from ...display.formatting import (
    format_duration,
    format_elapsed,
    format_relative,
    one_line,
    printable,
)
from ...display.reading import read_row, read_rows, unreadable_columns
from ...display.redact import redact_text, redacted_arguments, redacted_json
from ...display.scope import Scope
from ...display.tracebacks import FormattedTraceback, format_traceback
from ...models import Task, TaskEvent, TaskResult
from ...rules.names import short_id
from ...rules.status import Status
from ...rules.transitions import EventKind
from ..bulk.actions import ACTIONS
from ..workflows.steps import step_rows, steps_of
from .progress import read_progress
from .related import related_tasks, retries_of
from .retry_preview import retry_preview
from .timeline import timeline

MAX_EVENTS = 100


@dataclass(frozen=True, slots=True)
class EventRow:
    ts: datetime
    name: str
    kind: str
    attempt: int
    actor: str
    elapsed: str
    summary: str
    traceback: FormattedTraceback | None
    log: str


def detail_context(task: Task, scope: Scope, request: HttpRequest, *, can_see_payload: bool) -> dict[str, Any]:
    newest = read_rows(TaskEvent.objects.using(scope.using).filter(task_id=task.pk).order_by("-id")[: MAX_EVENTS + 1])
    events, is_cut = newest[:MAX_EVENTS][::-1], len(newest) > MAX_EVENTS
    steps = steps_of(task, scope.using)
    links = task_links(task, request.resolver_match.namespace if request.resolver_match else "admin")
    return {
        "task": task,
        "schedule_name": task.schedule_id and one_line(task.schedule_id, 128),
        "func_path": printable(task.func_path, 255),
        "badge": badge(display_status_of(task, scope.now)),
        "explanation": explain(task, events, scope, can_see_payload=can_see_payload),
        "actions": [
            action for action in ACTIONS.values() if action.is_possible(task.status) and action.is_allowed(request)
        ],
        "timeline": timeline(task, events, scope.now, steps, is_cut=is_cut),
        "steps": step_rows(steps, events, request, scope.using, can_see_payload=can_see_payload),
        "events": event_rows(task, events, can_see_payload=can_see_payload),
        "events_cut": is_cut and MAX_EVENTS,
        "facts": [
            (name, value, links.get(name, ""))
            for name, value in task_facts(task, scope.now, can_see_payload=can_see_payload)
        ],
        "unreadable": unreadable_columns(task),
        "preview": retry_preview(task, scope.now),
        "retries": retries_of(task, scope.using),
        "related": related_tasks(task, scope.using),
        "can_see_payload": can_see_payload,
        **(payload_context(task, scope, request) if can_see_payload else {}),
    }


def payload_context(task: Task, scope: Scope, request: HttpRequest) -> dict[str, Any]:
    """What needs a permission of its own: the call, the outcome and the last error."""
    error = task.last_error or {}
    outcome = read_row(TaskResult.objects.using(scope.using), task.pk) if task.is_finished else None
    return {
        "arguments": redacted_arguments(task, request),
        "has_result": outcome is not None and task.status == Status.SUCCESS,
        "result": redacted_json(outcome.result, request) if outcome else "",
        "error_title": error and one_line(f"{error.get('exception') or error.get('code')}", 200),
        "error_message": printable(redact_text(str(error.get("message") or "")), 4000),
        "error_traceback": format_traceback(str(error.get("traceback") or "")),
        "metadata": redacted_json(task.metadata, request) if task.metadata else "",
        "progress": read_progress(task.progress),
        "progress_text": redacted_json(task.progress, request) if task.progress else "",
    }


def event_rows(task: Task, events: Sequence[TaskEvent], *, can_see_payload: bool) -> list[EventRow]:
    names = actor_names({event.actor for event in events})
    rows, previous = [], task.created_at
    for event in events:
        if event.kind == EventKind.REQUEUED:
            continue  # the failure before it says when the next attempt is due
        error = as_mapping(as_mapping(event.data).get("error"))
        rows.append(
            EventRow(
                event.ts,
                str(EVENT_NAMES.get(event.kind, one_line(event.kind))),
                event.kind.partition(".")[2],
                event.attempt,
                names[event.actor],
                format_elapsed(previous, event.ts),
                event_summary(event, error, can_see_payload=can_see_payload),
                format_traceback(str(error.get("traceback") or "")) if can_see_payload else None,
                log_of(event) if can_see_payload else "",
            )
        )
        previous = event.ts
    return rows


def task_links(task: Task, site: str) -> dict[str, str]:
    """The name of a fact → the page that shows more of it, in this admin site."""
    worker = (task.locked_by or "").rpartition("/")[0] or task.locked_by or ""
    tasks = reverse("admin:django_tasks_retry_task_changelist", current_app=site)
    workers = reverse("admin:django_tasks_retry_worker_changelist", current_app=site)
    batch = reverse("admin:django_tasks_retry_task_batch", args=[task.batch], current_app=site) if task.batch else ""
    return {
        _("Queue"): f"{tasks}?{urlencode({'queue': task.queue})}",
        _("Worker"): f"{workers}#worker-{quote(worker, safe='')}",
        _("Run"): reverse("admin:django_tasks_retry_task_run", args=[task.run_id], current_app=site),
        _("Batch"): batch,
    }


def task_facts(task: Task, now: datetime, *, can_see_payload: bool) -> list[tuple[str, Any]]:
    """Name and value; a time stays a datetime, so that the template can mark it up as one."""
    spent = f"{task.spent} / {task.max_attempts}"
    refunded = _("%(spent)s, %(refunds)s refunded") % {"spent": spent, "refunds": task.refunds}
    facts: list[tuple[str, Any]] = [
        (_("Queue"), one_line(task.queue, 64)),
        (_("Run"), short_id(task.run_id)),
        (_("Batch"), task.batch and short_id(task.batch)),
        (_("Priority"), str(task.priority)),
        (_("Attempts"), refunded if task.refunds else spent),
        (_("Enqueued"), task.created_at),
        (_("Not before"), None if task.waits_for else task.eta),
        (_("Expires"), task.expires_at),
        (_("Started"), task.started_at),
        (_("Finished"), task.finished_at),
        (_("Timeout per attempt"), format_duration(task.timeout)),
        (_("Repeats every"), format_duration(task.interval) if task.interval else None),
        (_("Slot"), task.slot),
        (_("Unique key"), task.unique_key and can_see_payload and one_line(redact_text(task.unique_key), 200)),
        (_("Worker"), task.locked_by and one_line(task.locked_by, 128)),
        (_("Lease expires"), task.lock_expires_at and format_relative(task.lock_expires_at, now)),
        (_("Backend"), one_line(task.backend, 64)),
    ]
    return [(name, value) for name, value in facts if value not in (None, "", False)]
