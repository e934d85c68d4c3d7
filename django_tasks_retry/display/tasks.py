"""A task as people see it: its timing, its last error and its facts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.utils.translation import gettext as _

from ..models import Task
from ..rules.redact import redact_text
from ..rules.status import Status
from ..taskqueue.reading import unreadable_columns
from ..taskqueue.workflows.members import SIGNAL
from .formatting import error_name, format_duration, format_elapsed, format_relative, one_line


class Fact(NamedTuple):
    """A property of a task. `name` is for code, `label` is translated; times and ids keep their type."""

    name: str
    label: str
    value: str | datetime | UUID


def task_facts(task: Task, now: datetime, *, can_see_payload: bool) -> list[Fact]:
    """Return the properties that have a value, in the order in which people read them."""
    spent = f"{task.spent} / {task.max_attempts}"
    refunded = _("%(spent)s, %(refunds)s refunded") % {"spent": spent, "refunds": task.refunds}
    facts: list[tuple[str, str, Any]] = [
        ("queue", _("Queue"), one_line(task.queue, 64)),
        ("run", _("Run"), task.run_id),
        ("batch", _("Batch"), task.batch),
        ("priority", _("Priority"), str(task.priority)),
        ("attempts", _("Attempts"), refunded if task.refunds else spent),
        ("enqueued", _("Enqueued"), task.created_at),
        ("not before", _("Not before"), None if task.waits_for else task.eta),
        ("expires", _("Expires"), task.expires_at),
        ("started", _("Started"), task.started_at),
        ("finished", _("Finished"), task.finished_at),
        ("timeout", _("Timeout per attempt"), format_duration(task.timeout)),
        ("repeats every", _("Repeats every"), format_duration(task.interval) if task.interval else None),
        ("slot", _("Slot"), task.slot),
        ("unique key", _("Unique key"), can_see_payload and one_line(redact_text(task.unique_key or ""), 200)),
        ("worker", _("Worker"), one_line(task.locked_by or "", 128)),
        ("lease expires", _("Lease expires"), task.lock_expires_at and format_relative(task.lock_expires_at, now)),
        ("backend", _("Backend"), one_line(task.backend, 64)),
    ]
    return [Fact(*fact) for fact in facts if fact[2] not in (None, "", False)]


def error_line(error: Mapping[str, Any], limit: int = 200) -> str:
    """Return an error as it is stored on one line, without secrets; empty if there is none."""
    name, message = error_name(error), redact_text(str(error.get("message") or "")[:2000])
    return one_line(f"{name}: {message}" if message else name, limit)


def timing(task: Task, now: datetime) -> str:
    """Say when a task will run, or how long it has waited, run or taken: whatever matters in its status."""
    if unreadable_columns(task):
        return _("cannot be read")
    if task.status == Status.PENDING:
        return pending_timing(task, now)
    if task.status == Status.RUNNING and task.last_attempt_at:
        return _("running for %(time)s") % {"time": format_elapsed(task.last_attempt_at, now)}
    if task.last_attempt_at and task.finished_at:
        return format_elapsed(task.last_attempt_at, task.finished_at)
    return ""


def pending_timing(task: Task, now: datetime) -> str:
    if task.waits_for is not None:
        return _("waiting for a signal") if task.waits_for.startswith(SIGNAL) else _("waiting for tasks")
    if task.eta > now:
        return format_relative(task.eta, now)
    return _("waiting for %(time)s") % {"time": format_elapsed(task.eta, now)}
