"""The page of one group of failures: the context of its template."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext as _

from ...display.failure_words import error_words
from ...display.formatting import format_ago, format_capped, format_count, format_number, one_line, printable
from ...display.reading import read_row, unreadable_columns
from ...display.redact import redact_text, redacted_arguments
from ...display.scope import Scope
from ...display.tracebacks import format_traceback
from ...models import Task
from ...rules.names import short_id, short_name
from ...taskqueue.operator import failure_groups
from .what_changed import change_context


def group_context(
    group: failure_groups.FailureGroup, scope: Scope, request: HttpRequest, *, can_see_payload: bool
) -> dict[str, Any]:
    sample: Task | None = read_row(Task.objects.using(scope.using), group.sample)
    outcomes = failure_groups.outcomes(group.fingerprint, scope.using)
    return {
        "group": group,
        "error": error_words(group),
        "func_path": one_line(group.func_path, 255),
        "task_name": one_line(short_name(group.func_path), 80),
        "queue": one_line(group.queue, 64),
        "last_text": format_ago(group.last_failed_at, scope.now),
        "counts": counts_of(group, outcomes, scope.using),
        "open": outcomes.open,
        "is_partial": outcomes.is_partial and format_number(outcomes.looked_at),
        "sample": sample,
        "sample_id": short_id(group.sample),
        "can_see_payload": can_see_payload,
        **change_context(group.fingerprint, scope, can_see_payload=can_see_payload),
        **(sample_context(sample, request) if sample and can_see_payload else {}),
    }


def counts_of(
    group: failure_groups.FailureGroup, outcomes: failure_groups.Outcomes, using: str
) -> list[tuple[str, str, str]]:
    """Name, number and the filter of the list that shows them, where there is one."""
    estimate = 0
    if outcomes.failed > failure_groups.COUNTED:
        estimate = failure_groups.estimates(using).get(group.fingerprint, 0)
    failed, alike = format_count(outcomes.failed, failure_groups.COUNTED, estimate), f"fingerprint={group.fingerprint}"
    return [
        (_("Failed"), failed, f"status=failed&{alike}"),
        (_("In the last 24 hours"), format_capped(group.failed_today), ""),
        (_("In the last hour"), format_capped(group.failed_this_hour), ""),
        (_("Open: not retried yet"), format_number(outcomes.open), f"status=failed&retried=no&{alike}"),
        (_("Retried"), format_number(outcomes.retried), ""),
        (_("Succeeded since"), format_number(outcomes.succeeded), ""),
        (_("Waiting for another attempt"), format_capped(group.retrying), f"status=retrying&{alike}"),
    ]


def sample_context(sample: Task, request: HttpRequest) -> dict[str, Any]:
    """What needs a permission of its own: message, traceback and arguments of the latest failure."""
    error = sample.last_error or {}
    readable = not {"args", "kwargs"} & set(unreadable_columns(sample))
    return {
        "message": printable(redact_text(str(error.get("message") or "")), 4000),
        "traceback": format_traceback(str(error.get("traceback") or "")),
        "arguments": redacted_arguments(sample, request) if readable else [],
    }
