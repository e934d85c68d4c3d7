"""Tasks and events as rows of a table and as JSON, with secrets hidden."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.utils import timezone

from ..display.display_status import display_status_of
from ..display.events import as_mapping
from ..display.formatting import error_name, format_elapsed, format_relative, one_line
from ..display.reading import unreadable_columns
from ..display.redact import redact_text, redact_value
from ..models import Task, TaskEvent, TaskResult
from ..rules.ids import time_of
from ..rules.names import short_id, short_name
from ..rules.status import Status

LIST_COLUMNS = (
    "id", "func_path", "queue", "priority", "backend", "status", "eta", "expires_at", "attempts", "refunds",
    "max_attempts", "created_at", "started_at", "last_attempt_at", "finished_at", "locked_by", "last_error",
    "fingerprint", "retry_of_id", "follows_id", "run_id",
)  # fmt: skip
HEADINGS = ("ID", "STATUS", "TASK", "QUEUE", "ATTEMPTS", "ENQUEUED", "DUE OR DURATION", "LAST ERROR")


def task_row(task: Task, now: datetime) -> tuple[str, ...]:
    return (
        short_id(task.pk),
        display_status_of(task, now).name,
        one_line(short_name(task.func_path), 60),
        one_line(task.queue, 64),
        f"{task.spent}/{task.max_attempts}",
        local(time_of(task.pk)),
        timing(task, now),
        error_line(task),
    )


def task_record(task: Task, now: datetime) -> dict[str, Any]:
    """Without its payload."""
    error = as_mapping(task.last_error)
    return {
        "id": task.pk,
        "task": task.func_path,
        "status": task.status,
        "shown_as": display_status_of(task, now).name,
        "queue": task.queue,
        "priority": task.priority,
        "backend": task.backend,
        "attempts": task.attempts,
        "refunds": task.refunds,
        "max_attempts": task.max_attempts,
        "eta": task.eta,
        "expires_at": task.expires_at,
        "created_at": task.created_at,
        "started_at": task.started_at,
        "last_attempt_at": task.last_attempt_at,
        "finished_at": task.finished_at,
        "worker": task.locked_by,
        "run_id": task.run_id,
        "retry_of": task.retry_of_id,
        "batch": task.batch,
        "waits_for": task.waits_for,
        "follows": task.follows_id,
        "error": error_record(error) if error else None,
        "fingerprint": task.fingerprint,
        **({"unreadable": unreadable_columns(task)} if unreadable_columns(task) else {}),
    }


def error_record(error: Mapping[str, Any]) -> dict[str, Any]:
    message = redact_text(str(error.get("message") or ""))
    return {"exception": error.get("exception"), "code": error.get("code"), "message": message}


def payload_record(task: Task, *, raw: bool = False) -> dict[str, Any]:
    """The call as it was asked for. Raw means with its secrets."""
    columns = {"args": task.args, "kwargs": task.kwargs, "metadata": task.metadata, "progress": task.progress}
    return columns if raw else {name: redact_value("", value, None) for name, value in columns.items()}


def result_record(outcome: TaskResult | None, *, raw: bool = False) -> Any:
    if outcome is None:
        return None
    return outcome.result if raw else redact_value("", outcome.result, None)


def event_record(event: TaskEvent, *, raw: bool = False) -> dict[str, Any]:
    data = event.data if raw else redact_value("", event.data, None)
    return {
        "id": event.pk, "task_id": event.task_id, "kind": event.kind, "ts": event.ts, "attempt": event.attempt,
        "actor": event.actor, "data": data,
    }  # fmt: skip


def error_line(task: Task) -> str:
    error = as_mapping(task.last_error)
    if not error:
        return ""
    message = redact_text(str(error.get("message") or "")[:2000])
    return one_line(f"{error_name(error)}: {message}" if message else error_name(error), 120)


def timing(task: Task, now: datetime) -> str:
    """When it will run, or how long it has waited, run or taken."""
    if task.status == Status.PENDING and task.eta > now:
        return format_relative(task.eta, now)
    if task.status == Status.PENDING:
        return format_elapsed(task.eta, now)
    if task.last_attempt_at is None:
        return ""
    return format_elapsed(task.last_attempt_at, task.finished_at or now)


def local(moment: datetime | None) -> str:
    return f"{timezone.localtime(moment):%Y-%m-%d %H:%M:%S}" if moment else ""
