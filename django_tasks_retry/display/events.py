"""Events, failures and actors in words: what happened to tasks, what operators did, who paused what, and why."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..models import OperatorEvent, TaskEvent
from ..rules.failure import frames_of, general, innermost_project_frame
from ..rules.names import short_name
from ..rules.redact import redact_text
from ..rules.transitions import EventKind
from ..taskqueue.control import Pausable
from ..taskqueue.reading import read_rows
from ..taskqueue.statistics import GroupFigures, describe_groups, group_head
from .formatting import NO_VALUE, error_name, format_duration, format_moment, one_line, printable
from .redact import visible_reason
from .scope import Scope


def actor_names(actors: set[str]) -> dict[str, str]:
    """Actor → name; all users in one query."""
    keys = {actor: actor.partition(":")[2] for actor in actors if actor.startswith("user:")}
    valid = [key for key in keys.values() if is_valid_user_key(key)]
    users = get_user_model()._default_manager.filter(pk__in=valid) if valid else ()
    usernames = {str(user.pk): user.get_username() for user in users}
    return {actor: one_line(usernames.get(keys.get(actor, ""), actor), 80) for actor in actors}


def is_valid_user_key(key: str) -> bool:
    """False for what the primary key of users cannot hold: asking the database for it would be an error."""
    field = get_user_model()._meta.pk
    try:
        field.run_validators(field.to_python(key))
    except ValidationError:
        return False
    return True


class Pause(NamedTuple):
    """Describe who paused a queue, lane, function or schedule, when and why, as far as this reader may know."""

    at: datetime | None
    by: str
    reason: str

    @property
    def values(self) -> dict[str, str]:
        return {"by": self.by, "time": format_moment(self.at), "reason": self.reason or NO_VALUE}


def describe_pauses(rows: Iterable[Pausable], *, can_see_payload: bool = True) -> dict[str, Pause]:
    """Return the pauses of these rows, by the name of what is paused."""
    paused = {row.name: row for row in rows if row.paused_at is not None}
    names = actor_names({row.paused_by for row in paused.values()})
    return {
        name: Pause(row.paused_at, names[row.paused_by], visible_reason(row.reason, can_see_payload=can_see_payload))
        for name, row in paused.items()
    }


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
MAX_OPERATOR_EVENTS = 10
OPERATOR_EVENT_NAMES: dict[str, Any] = {
    "queue.paused": gettext_lazy("paused"),
    "queue.resumed": gettext_lazy("resumed"),
    "lane.paused": gettext_lazy("paused"),
    "lane.resumed": gettext_lazy("resumed"),
    "lane.probing": gettext_lazy("probing"),
    "lane.limited": gettext_lazy("limited"),
    "worker.stop_asked": gettext_lazy("asked to stop"),
    "canary.started": gettext_lazy("canaries retried"),
    "effect.answered": gettext_lazy("answered"),
    "proposal.made": gettext_lazy("proposed"),
    "proposal.confirmed": gettext_lazy("proposal confirmed"),
    "proposal.dismissed": gettext_lazy("proposal dismissed"),
    "release.suspected": gettext_lazy("fails more in a new release"),
    "schedule.created": gettext_lazy("created"),
    "schedule.changed": gettext_lazy("changed"),
    "schedule.deleted": gettext_lazy("deleted"),
    "schedule.paused": gettext_lazy("paused"),
    "schedule.resumed": gettext_lazy("resumed"),
    "schedule.run_now": gettext_lazy("run now"),
    "schedule.skipped": gettext_lazy("skipped"),
    "schedule.missed": gettext_lazy("missed"),
    "schedule.vanished": gettext_lazy("stopped: not in the code"),
}
BY_RULE = {
    "schedule.skipped": gettext_lazy("the previous run had not finished"),
    "schedule.missed": gettext_lazy("no worker enqueued it in time"),
    "schedule.vanished": gettext_lazy("no running worker lists it"),
}
"""Reasons of events for which nobody is asked for one."""

MAX_MESSAGE = 2000
MAX_FRAMES = 20


def event_summary(event: TaskEvent, error: dict[str, Any], *, can_see_payload: bool) -> str:
    """Error, delay, cause and reason of an event, on one line."""
    data, parts = as_mapping(event.data), []
    if error:
        message = redact_text(str(error.get("message") or "")) if can_see_payload else ""
        parts.append(f"{error_name(error)}: {message}" if message else error_name(error))
    if isinstance(data.get("backoff_ms"), int | float):
        parts.append(_("next attempt after %(time)s") % {"time": format_duration(data["backoff_ms"] / 1000)})
    if isinstance(process := data.get("process"), dict):
        ended = process.get("signal") or _("exit code %(code)s") % {"code": process.get("exit_code")}
        size = int(process.get("peak_memory") or 0) // 1024**2
        parts.append(f"{ended}, " + _("peak memory %(size)s MiB") % {"size": size})
    # What a task or a person wrote is payload: it may quote anything.
    parts += [redact_text(str(data[key])) for key in ("cause", "reason") if can_see_payload and data.get(key)]
    return one_line(" · ".join(parts), 240)


def as_mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def log_of(event: TaskEvent) -> str:
    """Return the lines that the attempt logged before it failed, redacted as its error is."""
    return printable(redact_text(str(as_mapping(event.data).get("log") or "")), 20_000)


def latest_operator_events(scope: Scope, kind: str, *, can_see_payload: bool) -> list[dict[str, Any]]:
    """Return people's actions of kinds with this prefix, newest first. Read by kind: rules may write very many."""
    kinds = [each for each in OPERATOR_EVENT_NAMES if each.startswith(kind) and each not in BY_RULE]
    stored = OperatorEvent.objects.using(scope.using).order_by("-id")
    found = [event for each in kinds for event in read_rows(stored.filter(kind=each)[:MAX_OPERATOR_EVENTS])]
    events = sorted(found, key=lambda event: event.pk, reverse=True)[:MAX_OPERATOR_EVENTS]
    return operator_event_rows(events, can_see_payload=can_see_payload)


def operator_event_rows(events: Sequence[OperatorEvent], *, can_see_payload: bool) -> list[dict[str, Any]]:
    names = actor_names({event.actor for event in events})
    return [
        {
            "ts": event.ts,
            "action": OPERATOR_EVENT_NAMES.get(event.kind, event.kind),
            "subject": one_line(event.subject, 128),
            "by": names[event.actor],
            "reason": BY_RULE.get(event.kind) or visible_reason(event.reason, can_see_payload=can_see_payload),
        }
        for event in events
    ]


def error_text(group: GroupFigures) -> str:
    """The exception's name without its module, or the code if there was no exception."""
    return one_line(short_name(group.exception) or group.code, 80)


def message_text(group: GroupFigures, *, can_see_payload: bool) -> str:
    return one_line(general(redact_text(group.message[:MAX_MESSAGE])), 160) if can_see_payload else ""


def group_text(fingerprint: str, using: str, *, can_see_payload: bool) -> str:
    """Error and message of a group; its fingerprint if the group is gone."""
    head = group_head(fingerprint, using)
    described = describe_groups([head], using) if head else []
    for group in described:
        parts = (error_text(group), message_text(group, can_see_payload=can_see_payload))
        return ": ".join(part for part in parts if part)
    return one_line(fingerprint, 40)


def place_in_project(traceback: str) -> str:
    """Return the innermost frame of the project's own code; empty if only libraries were involved."""
    frame = innermost_project_frame(frames_of(traceback))
    if frame is None or not frame.is_project:
        return ""
    return one_line(f"{frame.short_file}:{frame.line} {frame.function}", 120)


@dataclass(frozen=True, slots=True)
class FormattedFrame:
    location: str
    source: str


@dataclass(frozen=True, slots=True)
class FormattedTraceback:
    """`project_frames` begins with the innermost one, which is the first to read."""

    project_frames: list[FormattedFrame]
    full_text: str


def format_traceback(traceback: str) -> FormattedTraceback | None:
    if not traceback.strip():
        return None
    project = [frame for frame in frames_of(traceback) if frame.is_project]
    shown = [
        FormattedFrame(
            one_line(f"{frame.file}:{frame.line} {frame.function}", 300), one_line(redact_text(frame.source), 200)
        )
        for frame in reversed(project[-MAX_FRAMES:])
    ]
    return FormattedTraceback(shown, printable(redact_text(traceback)))
