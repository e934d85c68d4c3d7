"""The status that people see: PENDING is split into ready, scheduled, waiting and retrying.

Text and shape tell statuses apart; colour only repeats it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from ..models import Task
from ..rules.status import Status


@dataclass(frozen=True, slots=True)
class DisplayStatus:
    name: str
    label: str | Promise
    shape: str


READY = DisplayStatus("ready", _("Ready"), "○")
SCHEDULED = DisplayStatus("scheduled", _("Scheduled"), "◷")
WAITING = DisplayStatus("waiting", _("Waiting"), "◔")
RETRYING = DisplayStatus("retrying", _("Retrying"), "↻")
RUNNING = DisplayStatus("running", _("Running"), "▶")
SUCCESS = DisplayStatus("success", _("Success"), "✓")
FAILED = DisplayStatus("failed", _("Failed"), "✕")
CANCELLED = DisplayStatus("cancelled", _("Cancelled"), "⊘")

DISPLAY_STATUSES = (READY, SCHEDULED, WAITING, RETRYING, RUNNING, SUCCESS, FAILED, CANCELLED)
BY_STATUS = {
    Status.RUNNING: RUNNING,
    Status.SUCCESS: SUCCESS,
    Status.FAILED: FAILED,
    Status.CANCELLED: CANCELLED,
}


def display_status_of(task: Task, now: datetime) -> DisplayStatus:
    if task.status != Status.PENDING:
        return BY_STATUS[Status(task.status)]
    if task.waits_for is not None:
        return WAITING
    if task.spent:
        return RETRYING
    return SCHEDULED if task.eta > now else READY


def badge(status: DisplayStatus) -> SafeString:
    return format_html(
        '<span class="dtr-badge dtr-{}"><span aria-hidden="true">{}</span> {}</span>',
        status.name,
        status.shape,
        status.label,
    )
