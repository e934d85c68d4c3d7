"""A task's page, as values for its template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F
from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ...models import Task, TaskEvent
from ...rules.status import Status
from ...rules.transitions import EventKind
from ..base import names_of
from ..bulk.actions import DEEDS
from ..display.display_status import badge, standing_of
from ..display.formatting import ago, between, duration, line, short_class, short_path, visible
from ..display.redact import arguments, as_json, cleansed, scrubbed
from ..display.tracebacks import Trace, trace_of
from ..scope import Place
from .explain import why
from .retry_preview import retry_preview
from .timeline import timeline

EVENTS = 100
RELATED = 10

EVENT_NAMES: dict[str, str | Promise] = {
    EventKind.RUNNING: gettext_lazy("started"),
    EventKind.COMPLETED: gettext_lazy("completed"),
    EventKind.FAILED: gettext_lazy("failed"),
    EventKind.REQUEUED: gettext_lazy("will be tried again"),
    EventKind.LEASE_LOST: gettext_lazy("worker lost"),
    EventKind.RELEASED: gettext_lazy("released"),
    EventKind.CANCELLED: gettext_lazy("cancelled"),
    EventKind.RESCHEDULED: gettext_lazy("rescheduled"),
    EventKind.RETRIED: gettext_lazy("enqueued as a retry"),
}


@dataclass(frozen=True, slots=True)
class EventRow:
    ts: datetime
    name: str
    kind: str
    attempt: int
    actor: str
    after: str
    said: str
    trace: Trace | None


def context(task: Task, place: Place, request: HttpRequest, *, can_see_payload: bool) -> dict[str, Any]:
    newest = list(TaskEvent.objects.using(place.using).filter(task_id=task.pk).order_by("-id")[: EVENTS + 1])
    events, is_cut = newest[:EVENTS][::-1], len(newest) > EVENTS
    return {
        "task": task,
        "func_path": visible(task.func_path, 255),
        "badge": badge(standing_of(task, place.now)),
        "why": why(task, events, place),
        "deeds": [deed for deed in DEEDS.values() if deed.is_possible(task.status) and deed.is_allowed(request)],
        "timeline": timeline(task, events, place.now, is_cut=is_cut),
        "events": event_rows(task, events, can_see_payload=can_see_payload),
        "events_cut": is_cut and EVENTS,
        "facts": facts(task, place.now),
        "preview": retry_preview(task, place.now),
        "related": related(task, place.using),
        "can_see_payload": can_see_payload,
        **(payload(task, request) if can_see_payload else {}),
    }


def payload(task: Task, request: HttpRequest) -> dict[str, Any]:
    """What only those see who may: the call, the outcome and the last error."""
    error = task.last_error or {}
    outcome = getattr(task, "outcome", None)
    return {
        "arguments": arguments(task, request),
        "has_result": outcome is not None and task.status == Status.SUCCESS,
        "result": as_json(cleansed("", outcome.result, request)) if outcome else "",
        "error_title": error and line(f"{error.get('exception') or error.get('code')}", 200),
        "error_message": scrubbed(visible(error.get("message") or "", 4000)),
        "error_trace": trace_of(str(error.get("traceback") or "")),
        "metadata": as_json(cleansed("", task.metadata, request)) if task.metadata else "",
        "progress": as_json(cleansed("", task.progress, request)) if task.progress else "",
    }


def event_rows(task: Task, events: Sequence[TaskEvent], *, can_see_payload: bool) -> list[EventRow]:
    names = names_of({event.actor for event in events})
    rows, before = [], task.created_at
    for event in events:
        if event.kind == EventKind.REQUEUED:
            continue  # the failure before it tells when the next attempt is due
        error = event.data.get("error") or {}
        rows.append(
            EventRow(
                event.ts,
                str(EVENT_NAMES.get(event.kind, line(event.kind))),
                event.kind.partition(".")[2],
                event.attempt,
                names[event.actor],
                between(before, event.ts),
                said(event, error, can_see_payload=can_see_payload),
                trace_of(str(error.get("traceback") or "")) if can_see_payload else None,
            )
        )
        before = event.ts
    return rows


def said(event: TaskEvent, error: dict[str, Any], *, can_see_payload: bool) -> str:
    """What is worth saying about an event, on one line."""
    data, parts = event.data, []
    if error:
        kind = short_class(error.get("exception") or "") or str(error.get("code") or "")
        message = scrubbed(str(error.get("message") or ""))
        parts.append(f"{kind}: {message}" if can_see_payload and message else kind)
    if data.get("backoff_ms") is not None:
        parts.append(_("next attempt after %(time)s") % {"time": duration(data["backoff_ms"] / 1000)})
    parts += [str(data[key]) for key in ("cause", "reason") if data.get(key)]
    return line(" · ".join(parts), 240)


def facts(task: Task, now: datetime) -> list[tuple[str, Any]]:
    """Name and value; a time as such, so that the template can show it as one."""
    spent = f"{task.attempts - task.refunds} / {task.max_attempts}"
    refunded = _("%(spent)s, %(refunds)s refunded") % {"spent": spent, "refunds": task.refunds}
    known: list[tuple[str, Any]] = [
        (_("Queue"), line(task.queue, 64)),
        (_("Priority"), str(task.priority)),
        (_("Attempts"), refunded if task.refunds else spent),
        (_("Enqueued"), task.created_at),
        (_("Not before"), task.eta),
        (_("First started"), task.started_at),
        (_("Finished"), task.finished_at),
        (_("Timeout of an attempt"), duration(task.timeout)),
        (_("Repeats every"), duration(task.interval) if task.interval else None),
        (_("Unique key"), task.unique_key and line(task.unique_key, 200)),
        (_("Held by"), task.locked_by and line(task.locked_by, 128)),
        (_("Lease expires"), task.lock_expires_at and ago(task.lock_expires_at, now)),
        (_("Backend"), line(task.backend, 64)),
    ]
    return [(name, value) for name, value in known if value not in (None, "")]


@dataclass(frozen=True, slots=True)
class Relation:
    name: str
    tasks: list[dict[str, Any]]
    more: bool


def related(task: Task, using: str) -> list[Relation]:
    """Each found by an index that holds only tasks with such a relation."""
    tasks = Task.objects.using(using).order_by("-pk").only("pk", "func_path", "status")
    # The root of a run is not in the index of its members, but its id is the run's.
    run = [*tasks.filter(run_id=task.run_id).exclude(run_id=F("id")).exclude(pk=task.pk)[: RELATED + 1]]
    if task.run_id != task.pk and len(run) <= RELATED:
        run += [*tasks.filter(pk=task.run_id)]
    found = {
        _("Retry of"): [*tasks.filter(pk=task.retry_of_id)] if task.retry_of_id else [],
        _("Retried as"): [*tasks.filter(retry_of=task.pk)[: RELATED + 1]],
        _("Parent"): [*tasks.filter(pk=task.parent_id)] if task.parent_id else [],
        _("Children"): [*tasks.filter(parent=task.pk)[: RELATED + 1]],
        _("Same run"): run,
    }
    return [
        Relation(name, [brief(each) for each in some[:RELATED]], len(some) > RELATED)
        for name, some in found.items()
        if some
    ]


def brief(task: Task) -> dict[str, Any]:
    return {
        "pk": task.pk,
        "id": str(task.pk)[:13],
        "name": line(short_path(task.func_path), 60),
        "status": task.get_status_display(),
    }
