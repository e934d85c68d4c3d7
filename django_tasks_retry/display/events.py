"""Events of a task in words."""

from __future__ import annotations

from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..models import TaskEvent
from ..rules.transitions import EventKind
from .formatting import error_name, format_duration, one_line, printable
from .redact import redact_text

EVENT_NAMES: dict[str, str | Promise] = {
    EventKind.RUNNING: gettext_lazy("started"),
    EventKind.COMPLETED: gettext_lazy("completed"),
    EventKind.FAILED: gettext_lazy("failed"),
    EventKind.REQUEUED: gettext_lazy("will be retried"),
    EventKind.LEASE_LOST: gettext_lazy("worker lost"),
    EventKind.RELEASED: gettext_lazy("released"),
    EventKind.CANCELLED: gettext_lazy("cancelled"),
    EventKind.RESCHEDULED: gettext_lazy("rescheduled"),
    EventKind.RETRIED: gettext_lazy("enqueued as a retry"),
}


def event_summary(event: TaskEvent, error: dict[str, Any], *, can_see_payload: bool) -> str:
    """Error, delay, cause and reason of an event, on one line."""
    data, parts = as_mapping(event.data), []
    if error:
        message = redact_text(str(error.get("message") or "")) if can_see_payload else ""
        parts.append(f"{error_name(error)}: {message}" if message else error_name(error))
    if isinstance(data.get("backoff_ms"), int | float):
        parts.append(_("next attempt after %(time)s") % {"time": format_duration(data["backoff_ms"] / 1000)})
    if isinstance(process := data.get("process"), dict):
        parts.append(process_words(process))
    # What a task or a person wrote is payload: it may quote anything.
    parts += [redact_text(str(data[key])) for key in ("cause", "reason") if can_see_payload and data.get(key)]
    return one_line(" · ".join(parts), 240)


def process_words(process: dict[str, Any]) -> str:
    """How the process of an attempt ended."""
    ended = process.get("signal") or _("exit code %(code)s") % {"code": process.get("exit_code")}
    size = int(process.get("peak_memory") or 0) // 1024**2
    return f"{ended}, " + _("peak memory %(size)s MiB") % {"size": size}


def as_mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def log_of(event: TaskEvent) -> str:
    """What the attempt logged before it failed, redacted as its error is."""
    return printable(redact_text(str(as_mapping(event.data).get("log") or "")), 20_000)
