"""Why a task is not running, or why it ended: one sentence, and where there is one, the way out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from .. import registry
from ..models import Queue, Task, TaskEvent, Worker
from ..rules.failure import Code
from ..rules.queues import matches
from ..rules.status import Status
from ..rules.transitions import EventKind
from ..taskqueue import alive_workers, summaries
from .base import names_of
from .place import Place
from .wording import ago, between, capped, line, short_class

NONE = "—"


@dataclass(frozen=True, slots=True)
class Why:
    """A sentence; `command` is what to type where that helps."""

    sentence: str
    command: str = ""


def why(task: Task, events: Sequence[TaskEvent], place: Place) -> Why:
    match task.status:
        case Status.PENDING:
            return why_waiting(task, place)
        case Status.RUNNING:
            return why_running(task, place.now)
        case Status.SUCCESS:
            return why_succeeded(task)
        case Status.FAILED:
            return why_failed(task)
        case _:
            return why_cancelled(task, events)


def why_waiting(task: Task, place: Place) -> Why:
    paused = Queue.objects.using(place.using).filter(name=task.queue, paused_at__isnull=False).first()
    if paused is not None:
        return why_paused(paused)
    if task.eta > place.now:
        return why_later(task, place.now)
    return why_not_claimed(task, place)


def why_paused(queue: Queue) -> Why:
    by = names_of({queue.paused_by})[queue.paused_by]
    told = {
        "queue": line(queue.name, 64),
        "by": by,
        "time": clock(queue.paused_at),
        "reason": line(queue.reason or NONE),
    }
    return Why(
        _("Queue %(queue)s was paused by %(by)s at %(time)s (%(reason)s). It waits until the queue is resumed.") % told
    )


def why_later(task: Task, now: datetime) -> Why:
    told = {"time": clock(task.eta), "ago": ago(task.eta, now)}
    if task.attempts <= task.refunds:
        return Why(_("It is scheduled: not before %(time)s, %(ago)s.") % told)
    told |= {"spent": str(task.attempts - task.refunds), "budget": str(task.max_attempts), "error": error_name(task)}
    return Why(
        _("Attempt %(spent)s of %(budget)s failed (%(error)s). The next one is due at %(time)s, %(ago)s.") % told
    )


def why_not_claimed(task: Task, place: Place) -> Why:
    workers: list[Worker] = list(alive_workers(task.backend).filter(backend=task.backend)[:1000])
    serving = [worker for worker in workers if serves(worker, task.queue)]
    if not serving:
        return Why(
            _("It is due, but no live worker serves queue %(queue)s. Start one:") % {"queue": line(task.queue, 64)},
            command=start_command(task.queue),
        )
    if not any(knows(worker, task.func_path) for worker in serving):
        return Why(unknown_sentence(task, len(serving)))
    ahead = summaries.ahead_of(task, place.using)
    if ahead:
        text = ngettext(
            "%(count)s task is ahead of it in queue %(queue)s.",
            "%(count)s tasks are ahead of it in queue %(queue)s.",
            ahead,
        )
        return Why(text % {"count": capped(ahead), "queue": line(task.queue, 64)})
    return Why(_("It is due and first in line: the next free worker takes it."))


def unknown_sentence(task: Task, serving: int) -> str:
    text = ngettext(
        "It is due, but the live worker of its queue does not know %(path)s.",
        "It is due, but none of the %(count)s live workers of its queue knows %(path)s.",
        serving,
    )
    told = text % {"count": serving, "path": line(task.func_path, 255)}
    return f"{told} {_('Deploy the code that has it, or cancel the task.')}"


def serves(worker: Worker, queue: str) -> bool:
    return matches(queue, worker.queues) and not matches(queue, worker.exclude)


def knows(worker: Worker, func_path: str) -> bool:
    """A worker that lists nothing is given the benefit of the doubt."""
    return not worker.tasks or func_path in worker.tasks


def start_command(queue: str) -> str:
    return f"python manage.py runworker --queues {line(queue, 64)}"


def why_running(task: Task, now: datetime) -> Why:
    told = {
        "spent": task.attempts - task.refunds,
        "budget": task.max_attempts,
        "worker": line(task.locked_by or "", 128),
        "time": between(task.last_attempt_at or now, now),
    }
    if task.lock_expires_at and task.lock_expires_at <= now:
        told["expired"] = between(task.lock_expires_at, now)
        lost = _("Its worker %(worker)s has not been heard of: the lease expired %(expired)s ago.") % told
        return Why(f"{lost} {_('A live worker will take it back.')}")
    return Why(_("Attempt %(spent)s of %(budget)s has been running for %(time)s on %(worker)s.") % told)


def why_succeeded(task: Task) -> Why:
    told = {"spent": task.attempts - task.refunds, "time": duration_of_last(task)}
    if task.attempts - task.refunds > 1:
        return Why(_("It succeeded at attempt %(spent)s, which took %(time)s.") % told)
    return Why(_("It succeeded at the first attempt, which took %(time)s.") % told)


def duration_of_last(task: Task) -> str:
    if task.last_attempt_at is None or task.finished_at is None:
        return NONE
    return between(task.last_attempt_at, task.finished_at)


def why_failed(task: Task) -> Why:
    error, told = task.last_error or {}, {"error": error_name(task), "budget": task.max_attempts}
    spent = task.attempts - task.refunds
    match error.get("code"):
        case Code.LEASE_LOST:
            return Why(_("Its worker was lost during the last of %(budget)s attempts, so it was given up.") % told)
        case Code.ABORTED:
            return Why(_("It asked to be given up by raising Abort at attempt %(spent)s.") % {"spent": spent})
        case Code.BAD_ARGUMENTS:
            return Why(_("Its arguments do not fit the function; trying again cannot help."))
    if spent >= task.max_attempts:
        text = ngettext(
            "It gave up after its only attempt, which failed: %(error)s.",
            "It gave up after all of its %(budget)s attempts failed, the last with %(error)s.",
            task.max_attempts,
        )
        return Why(text % told)
    return Why(f"{_('It gave up although attempts were left:')} {not_retryable(task)}")


def not_retryable(task: Task) -> str:
    """Which part of the policy says so, as far as this process knows the function."""
    policy, told = registry.find_policy(task.func_path), {"error": error_name(task)}
    if policy.abort_on:
        return _("the policy does not retry %(error)s (abort_on).") % told
    if policy.retry_on:
        return _("the policy does not retry %(error)s (it is not in retry_on).") % told
    return _("the policy said not to retry %(error)s.") % told


def why_cancelled(task: Task, events: Sequence[TaskEvent]) -> Why:
    told = next((event for event in reversed(events) if event.kind == EventKind.CANCELLED), None)
    if told is None:
        return Why(_("It was cancelled."))
    by, reason = names_of({told.actor})[told.actor], line(told.data.get("reason") or NONE)
    return Why(
        _("It was cancelled by %(by)s at %(time)s: %(reason)s") % {"by": by, "time": clock(told.ts), "reason": reason}
    )


def error_name(task: Task) -> str:
    error = task.last_error or {}
    return line(short_class(error.get("exception") or "") or error.get("code") or _("an error"), 80)


def clock(moment: datetime | None) -> str:
    if moment is None:
        return NONE
    local = timezone.localtime(moment) if timezone.is_aware(moment) else moment
    return f"{local:%Y-%m-%d %H:%M:%S}"
