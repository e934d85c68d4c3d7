"""A task, queue, lane or worker as people see it: its status as a badge, and a task's timing, last error and facts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from .. import registry
from ..models import Task, TaskEvent, Worker
from ..rules.failure import PERMANENT, Code
from ..rules.names import short_name
from ..rules.redact import redact_text
from ..rules.status import Status
from ..rules.transitions import POISON_AFTER, EventKind
from ..taskqueue import ALIVE_SECONDS, unreadable_columns
from ..taskqueue.lanes import LaneSummary
from ..taskqueue.statistics import QueueFigures
from ..taskqueue.workflows import SIGNAL
from .events import as_mapping
from .formatting import error_name, format_duration, format_elapsed, format_relative, one_line


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
BY_STATUS = {Status.RUNNING: RUNNING, Status.SUCCESS: SUCCESS, Status.FAILED: FAILED, Status.CANCELLED: CANCELLED}


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


def served_queues(worker: Worker) -> str:
    queues = ", ".join(worker.queues)
    if not worker.exclude:
        return queues
    return _("%(queues)s (not %(excluded)s)") % {"queues": queues, "excluded": ", ".join(worker.exclude)}


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
        ("expires", _("Expires"), None if task.expires_at == task.deadline_at else task.expires_at),
        ("deadline", _("Deadline"), task.deadline_at),
        ("started", _("Started"), task.started_at),
        ("finished", _("Finished"), task.finished_at),
        ("timeout", _("Timeout per attempt"), format_duration(task.timeout)),
        ("repeats every", _("Repeats every"), format_duration(task.interval) if task.interval else None),
        ("slot", _("Slot"), task.slot),
        ("unique key", _("Unique key"), can_see_payload and one_line(redact_text(task.unique_key or ""), 200)),
        ("unique until", _("Unique until"), task.unique_until),
        ("on failure", _("On failure"), short_name(str((task.on_failure or {}).get("func_path") or ""))),
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


def words_of(task: Task) -> dict[str, str]:
    """Return the values of sentences about a task."""
    return {
        "spent": str(task.spent),
        "budget": str(task.max_attempts),
        "error": one_line(error_name(task.last_error or {}) or _("an error"), 80),
        "worker": one_line(task.locked_by or "", 128),
        "queue": one_line(task.queue, 64),
        "lane": one_line(task.lane, 100),
        "path": one_line(task.func_path, 255),
        "backend": one_line(task.backend, 64),
    }


# Is it safe to retry a task? Facts in, a verdict and its reasons out.

SAFE = State("safe", "success", "✓", gettext_lazy("Safe to retry"))
DOUBTFUL = State("doubtful", "retrying", "?", gettext_lazy("Look before you retry"))
RISKY = State("risky", "failed", "!", gettext_lazy("Risky to retry"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryFacts:
    """`lost` counts attempts whose worker was lost, `retries` earlier retries of the task."""

    status: str
    attempts: int
    is_atomic: bool
    code: str = ""
    crashes: int = 0
    lost: int = 0
    retries: int = 0


def retry_of_task(task: Task, events: Sequence[TaskEvent], retries: int) -> tuple[State, list[str]]:
    """Return how safe a retry of this task is, and why."""
    facts = RetryFacts(
        status=task.status,
        attempts=task.attempts,
        is_atomic=registry.find_policy(task.func_path).atomic,
        code=str(as_mapping(task.last_error).get("code") or ""),
        crashes=task.crashes or 0,
        lost=sum(event.kind == EventKind.LEASE_LOST for event in events),
        retries=retries,
    )
    return safety_of_retry(facts)


def safety_of_retry(facts: RetryFacts) -> tuple[State, list[str]]:
    """Return how safe a retry is, and why."""
    if risks := risks_of(facts):
        return RISKY, risks
    if not facts.attempts:
        return SAFE, [_("It never ran.")]
    if facts.is_atomic:
        text = _("It is atomic: failed attempts changed nothing in the database. Mails and other calls are not undone.")
        return SAFE, [text]
    reasons = [_("It is not atomic: what its attempts did is done again, unless its code prevents it.")]
    if facts.lost:
        text = ngettext(
            "%s attempt lost its worker, perhaps after its effect.",
            "%s attempts lost their workers, perhaps after their effect.",
            facts.lost,
        )
        reasons.append(text % facts.lost)
    return DOUBTFUL, reasons


def risks_of(facts: RetryFacts) -> list[str]:
    is_poison = facts.code == Code.CRASHED or facts.crashes >= POISON_AFTER
    risks = [
        (facts.status == Status.SUCCESS, _("It succeeded: its work is done again.")),
        (bool(facts.retries), _("It was retried already: its work may be done twice.")),
        (is_poison, _("It killed its process again and again, and may kill the next one. It would run alone.")),
        (facts.code in PERMANENT, _("It would fail in the same way: %s.") % facts.code),
    ]
    return [text for applies, text in risks if applies]
