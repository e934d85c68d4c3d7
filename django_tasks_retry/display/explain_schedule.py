"""Explains a schedule's state: when it runs next, or why it does not; one sentence."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.utils.translation import gettext as _

from .. import registry
from ..errors import TaskQueueError
from ..models import OperatorEvent, Schedule
from ..taskqueue import UNREADABLE, alive_workers, read_rows
from ..taskqueue.schedules import task_for, unfinished_runs
from ..utc import as_instant
from .events import describe_pauses
from .formatting import format_moment, one_line, when
from .scope import Scope
from .states import Explanation, State

RUNWORKER = "python manage.py runworker"
OVERDUE = timedelta(seconds=10)
MAX_EVENTS = 500


@dataclass(frozen=True, slots=True)
class Missed:
    """Slots of a schedule that did not run: how many, the last of them, and whether a rule of overlap skipped them."""

    name: str
    count: int
    last: datetime
    is_skipped: bool = False


def missed_slots(scope: Scope) -> dict[str, Missed]:
    """Return the slots that no worker enqueued in time within a day, by schedule, the latest first."""
    found: dict[str, Missed] = {}
    for each in slots_not_run(scope, "schedule.missed"):
        if each.last > scope.now - timedelta(days=1):
            before = found.get(each.name, replace(each, count=0))
            found[each.name] = replace(before, count=before.count + each.count)
    return found


def slots_not_run(scope: Scope, *kinds: str) -> Iterator[Missed]:
    recent = OperatorEvent.objects.using(scope.using).filter(kind__in=kinds).order_by("-id")[:MAX_EVENTS]
    return filter(None, map(missed_of, read_rows(recent)))


def missed_of(event: OperatorEvent) -> Missed | None:
    """Read the event of a slot that did not run; None for other events, and for one that cannot be understood."""
    data = event.data if isinstance(event.data, dict) else {}
    try:
        last = as_instant(datetime.fromisoformat(str(data.get("last") or data.get("slot"))))
        return Missed(event.subject, int(data.get("count") or 1), last, event.kind == "schedule.skipped")
    except (ValueError, TypeError):
        return None


def schedule_state(schedule: Schedule, now: datetime) -> State:
    if schedule.vanished_at is not None:
        return State("vanished", "failed", "✕", _("Not in the code"))
    if schedule.paused_at is not None:
        return State("paused", "retrying", "‖", _("Paused"))
    if problem_of(schedule, now):
        return State("failing", "failed", "!", _("Cannot run"))
    if schedule.next_at is None:
        return State("ended", "idle", "■", _("Ended"))
    if schedule.next_at < now - OVERDUE:
        return State("waiting", "retrying", "◷", _("Waiting"))
    return State("active", "success", "▶", _("Active"))


def problem_of(schedule: Schedule, now: datetime) -> str:
    """Return why no worker could enqueue it, as far as this process can tell."""
    if registry.find(schedule.func_path) is None:
        return _("This process does not know %(path)s. Only workers that know it enqueue it.") % {
            "path": one_line(schedule.func_path, 255)
        }
    try:
        schedule.timing.after(now)
        task_for(schedule)
    except (TaskQueueError, *UNREADABLE) as error:
        return one_line(error, 300)
    return ""


def explain_schedule(schedule: Schedule, scope: Scope, *, can_see_payload: bool) -> Explanation:
    if schedule.vanished_at is not None:
        text = _("No running worker has it in its code any more, so it does not run. Deploy its code, or delete it.")
        return Explanation(text)
    if schedule.paused_at is not None:
        pause = describe_pauses([schedule], can_see_payload=can_see_payload)[schedule.name]
        text = _("It was paused by %(by)s at %(time)s (%(reason)s). Nothing is enqueued until it is resumed.")
        return Explanation(text % pause.values)
    if problem := problem_of(schedule, scope.now):
        return Explanation(problem)
    if schedule.next_at is None:
        return Explanation(_("It has ended: no slot lies before its end."))
    late = schedule.next_at < scope.now - OVERDUE
    return explain_overdue(schedule, scope) if late else explain_last(schedule, scope)


def explain_overdue(schedule: Schedule, scope: Scope) -> Explanation:
    values = when(schedule.next_at, scope.now)
    if schedule.overlap == "queue" and unfinished_runs([schedule.name], scope.using):
        return Explanation(_("The slot of %(time)s waits until the previous run has finished.") % values)
    if not alive_workers(scope.backend).exists():
        text = _("The slot of %(time)s was due %(ago)s, but no worker is running. Start one:")
        return Explanation(text % values, command=RUNWORKER)
    text = _("The slot of %(time)s was due %(ago)s, and no running worker has enqueued it. Do they know its task?")
    return Explanation(text % values)


def explain_last(schedule: Schedule, scope: Scope) -> Explanation:
    upcoming, text = _("It runs next at %(time)s, %(ago)s.") % when(schedule.next_at, scope.now), ""
    if schedule.last_outcome == "skipped":
        text = _("The slot of %(time)s was skipped: the previous run had not finished.")
    elif schedule.last_outcome == "missed":
        text = _("The slot of %(time)s was missed: no worker could enqueue it in time.")
    return Explanation(f"{text % {'time': format_moment(schedule.last_at)}} {upcoming}".strip())
