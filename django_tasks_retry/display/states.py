"""How a task, queue, lane or worker stands, as a badge: in the same words in the console and in the shell.

PENDING is split into ready, scheduled, waiting and retrying.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..models import Task, Worker
from ..rules.status import Status
from ..taskqueue.lanes.summaries import LaneSummary
from ..taskqueue.statistics.summaries import QueueFigures
from ..taskqueue.workers import ALIVE_SECONDS
from .formatting import format_duration


class State(NamedTuple):
    """`name` is for code, `tone` the colour. Label and shape tell states apart; colour repeats it."""

    name: str
    tone: str
    shape: str
    label: str | Promise


@dataclass(frozen=True, slots=True)
class Explanation:
    """A sentence; `command` is the line to type, if one helps."""

    sentence: str
    command: str = ""


READY = State("ready", "ready", "○", gettext_lazy("Ready"))
SCHEDULED = State("scheduled", "scheduled", "◷", gettext_lazy("Scheduled"))
WAITING = State("waiting", "waiting", "◔", gettext_lazy("Waiting"))
RETRYING = State("retrying", "retrying", "↻", gettext_lazy("Retrying"))
RUNNING = State("running", "running", "▶", gettext_lazy("Running"))
SUCCESS = State("success", "success", "✓", gettext_lazy("Success"))
FAILED = State("failed", "failed", "✕", gettext_lazy("Failed"))
CANCELLED = State("cancelled", "cancelled", "⊘", gettext_lazy("Cancelled"))

TASK_STATES = (READY, SCHEDULED, WAITING, RETRYING, RUNNING, SUCCESS, FAILED, CANCELLED)
BY_STATUS = {
    Status.RUNNING: RUNNING,
    Status.SUCCESS: SUCCESS,
    Status.FAILED: FAILED,
    Status.CANCELLED: CANCELLED,
}


def badge(state: State) -> SafeString:
    return format_html(
        '<span class="dtr-badge dtr-{}"><span aria-hidden="true">{}</span> {}</span>',
        state.tone,
        state.shape,
        state.label,
    )


def task_state(task: Task, now: datetime) -> State:
    if task.status != Status.PENDING:
        return BY_STATUS[Status(task.status)]
    if task.waits_for is not None:
        return WAITING
    if task.spent:
        return RETRYING
    return SCHEDULED if task.eta > now else READY


def colour_of(task: Task) -> str:
    """Name the colour of a task in a drawing, in which all that is pending waits."""
    return WAITING.tone if task.status == Status.PENDING else BY_STATUS[Status(task.status)].tone


def queue_state(queue: QueueFigures) -> State:
    if queue.is_paused:
        return State("paused", "retrying", "‖", _("Paused"))
    if queue.due and not queue.workers:
        return State("no worker", "failed", "!", _("No worker"))
    if queue.full_at:
        return State("full", "retrying", "▮", _("Full"))
    if queue.is_failing:
        return State("failing", "failed", "✕", _("Failing"))
    return State("active", "success", "▶", _("Active")) if queue.workers else State("idle", "idle", "○", _("Idle"))


def lane_state(lane: LaneSummary) -> State:
    if lane.is_paused and lane.state.probe_at:
        return State("tripped", "failed", "✕", _("tripped"))
    if lane.is_paused:
        return State("paused", "retrying", "‖", _("paused"))
    if lane.trouble:
        return State("unreadable", "failed", "!", _("cannot be read"))
    if lane.state.probing_since:
        return State("probing", "retrying", "◷", _("probing"))
    if lane.is_throttled:
        text = _("opens in %(time)s") % {"time": format_duration(lane.opens_in)}
        return State("throttled", "retrying", "◷", text)
    return State("full", "retrying", "▮", _("full")) if lane.is_full else State("open", "success", "▶", _("open"))


def worker_state(worker: Worker, now: datetime) -> State:
    if worker.stopped_at:
        return State("stopped", "idle", "■", _("stopped"))
    if (now - worker.heartbeat_at).total_seconds() > ALIVE_SECONDS:
        return State("lost", "failed", "!", _("not responding"))
    if worker.stop_asked_at:
        return State("stopping", "retrying", "◷", _("finishing"))
    return State("alive", "success", "▶", _("alive"))


def worker_end(worker: Worker, now: datetime) -> datetime:
    """Return when the worker stopped or was last heard of; of one that is alive, now."""
    return worker.stopped_at or (worker.heartbeat_at if worker_state(worker, now).name == "lost" else now)
