"""Where a task stands, in words and shapes: text and form tell it, colour only repeats it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from ...models import Task
from ...rules.status import Status


@dataclass(frozen=True, slots=True)
class Standing:
    name: str
    label: str | Promise
    shape: str


READY = Standing("ready", _("Ready"), "○")
SCHEDULED = Standing("scheduled", _("Scheduled"), "◷")
RETRYING = Standing("retrying", _("Retrying"), "↻")
RUNNING = Standing("running", _("Running"), "▶")
SUCCESS = Standing("success", _("Success"), "✓")
FAILED = Standing("failed", _("Failed"), "✕")
CANCELLED = Standing("cancelled", _("Cancelled"), "⊘")

STANDINGS = (READY, SCHEDULED, RETRYING, RUNNING, SUCCESS, FAILED, CANCELLED)
PLAIN = {
    Status.RUNNING: RUNNING,
    Status.SUCCESS: SUCCESS,
    Status.FAILED: FAILED,
    Status.CANCELLED: CANCELLED,
}


def standing_of(task: Task, now: datetime) -> Standing:
    if task.status != Status.PENDING:
        return PLAIN[Status(task.status)]
    if task.attempts > task.refunds:
        return RETRYING
    return SCHEDULED if task.eta > now else READY


def badge(standing: Standing) -> SafeString:
    return format_html(
        '<span class="dtr-badge dtr-{}"><span aria-hidden="true">{}</span> {}</span>',
        standing.name,
        standing.shape,
        standing.label,
    )
