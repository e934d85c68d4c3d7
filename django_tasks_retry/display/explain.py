"""Explains a task's state: why it is not running, or why it ended; one sentence, and a command if that helps."""

from collections.abc import Sequence
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from .. import registry
from ..conf import configured_backends
from ..models import Schedule, Task, TaskEvent, Worker
from ..rules.backoff import MAX_DELAY
from ..rules.failure import Code
from ..rules.status import Status
from ..rules.transitions import POISON_AFTER, EventKind
from ..taskqueue import alive_workers, sound_workers, statistics, unreadable_columns
from ..taskqueue.recording import WARN_AFTER_RELEASES, releases_in_a_row
from ..taskqueue.statistics import serving
from ..taskqueue.workflows import CANARY, SIGNAL, batch_counts, batch_of, canary_standing
from .events import actor_names
from .explain_limits import explain_limit, explain_pause
from .formatting import (
    NO_VALUE,
    format_capped,
    format_elapsed,
    format_moment,
    format_number,
    one_line,
    when,
)
from .problems import no_tasks_advice, runworker_command, unknown_task_advice
from .redact import visible_reason
from .scope import Scope
from .states import Explanation, words_of


def explain(task: Task, events: Sequence[TaskEvent], scope: Scope, *, can_see_payload: bool) -> Explanation:
    """Reasons that people wrote are told to those who may see payloads."""
    if unreadable_columns(task):
        return Explanation(explain_unreadable(task))
    if task.status == Status.CANCELLED:
        return Explanation(explain_cancelled(events, can_see_payload=can_see_payload))
    if task.is_finished:
        return Explanation(explain_success(task) if task.status == Status.SUCCESS else explain_failed(task))
    if task.status == Status.PENDING:
        found = explain_pending(task, scope, can_see_payload=can_see_payload)
    else:
        found = Explanation(explain_running(task, scope.now))
    more = (found.sentence, releases_sentence(task, scope), skipped_sentence(task, scope))
    return Explanation(" ".join(filter(None, more)), found.command)


def skipped_sentence(task: Task, scope: Scope) -> str:
    """Say what an unfinished run does to the later slots of its schedule."""
    behind = Schedule.objects.using(scope.using).filter(pk=task.schedule_id, last_outcome="skipped").only("last_at")
    if not task.schedule_id or (schedule := behind.first()) is None:
        return ""
    values = {"name": one_line(schedule.name, 128), "time": format_moment(schedule.last_at)}
    return _("The slot of %(time)s of its schedule %(name)s was skipped: the previous run had not finished.") % values


def releases_sentence(task: Task, scope: Scope) -> str:
    """Say that workers only give it back, which brings it no further."""
    count, reason = releases_in_a_row(task.pk, scope.using) if task.refunds >= WARN_AFTER_RELEASES else (0, "")
    if count < WARN_AFTER_RELEASES:
        return ""
    values = {"count": format_number(count), "reason": one_line(reason, 200)}
    return _("Workers released it %(count)s times in a row, the last time because: %(reason)s") % values


def explain_unreadable(task: Task) -> str:
    values = {"columns": ", ".join(unreadable_columns(task))}
    if task.is_finished:
        return _("Part of it cannot be read: %(columns)s. What is shown of it is incomplete.") % values
    return _("It cannot be read: %(columns)s. No worker can run it. Cancel it, and find out who wrote it.") % values


def explain_pending(task: Task, scope: Scope, *, can_see_payload: bool) -> Explanation:
    if task.deadline_at and task.deadline_at <= scope.now:
        text = _("Its deadline passed at %(time)s. The next worker cancels it.")
        return Explanation(text % {"time": format_moment(task.deadline_at)})
    if task.expires_at and task.expires_at <= scope.now and not task.spent:
        text = _("It expired at %(time)s before it was started. The next worker cancels it.")
        return Explanation(text % {"time": format_moment(task.expires_at)})
    found = explain_waiting_for(task, scope, can_see_payload=can_see_payload)
    return Explanation(f"{found.sentence} {end_sentence(task, scope.now)}".rstrip(), found.command)


def explain_waiting_for(task: Task, scope: Scope, *, can_see_payload: bool) -> Explanation:
    if task.backend not in configured_backends():
        text = _(
            "TASKS has no RetryBackend named %(backend)s, so no worker runs it. Add the backend, or cancel the task."
        )
        return Explanation(text % words_of(task))
    if held := explain_pause(task, scope, can_see_payload=can_see_payload) or follows_sentence(task, scope):
        return Explanation(held)
    if task.eta > scope.now:
        return Explanation(explain_not_due(task, scope))
    if (task.crashes or 0) >= POISON_AFTER:
        return Explanation(_("Its process died twice in a row, so a worker runs it alone in a process of its own."))
    return explain_unclaimed(task, scope)


def end_sentence(task: Task, now: datetime) -> str:
    """Say until when it may wait, if no attempt is spent yet, or until when it must have finished."""
    if task.deadline_at and (task.spent or task.deadline_at == task.expires_at):
        text = _("Its deadline is %(time)s, %(ago)s: it is cancelled if it has not finished by then.")
        return text % when(task.deadline_at, now)
    if task.expires_at is None or task.spent:
        return ""
    return _("It expires at %(time)s, %(ago)s, if it has not started by then.") % when(task.expires_at, now)


def follows_sentence(task: Task, scope: Scope) -> str:
    """Name the unfinished task that it follows; empty if there is none."""
    if not task.follows_id or not Task.objects.using(scope.using).filter(pk=task.follows_id, finished_at=None).exists():
        return ""
    text = _("It runs once more after the task %(id)s, which holds the same unique key and has not finished.")
    return text % {"id": task.follows_id}


def explain_not_due(task: Task, scope: Scope) -> str:
    if task.waits_for is not None:
        return explain_waiting(task, scope.now, scope.using)
    text = _("It is scheduled for %(time)s, %(ago)s.")
    if task.spent:
        text = _("Attempt %(spent)s of %(budget)s failed (%(error)s). The next one is due at %(time)s, %(ago)s.")
    return text % (words_of(task) | when(task.eta, scope.now))


def explain_unclaimed(task: Task, scope: Scope) -> Explanation:
    alive: list[Worker] = sound_workers(alive_workers(scope.backend).filter(backend=task.backend)[:1000])
    workers = serving(task.queue, alive)
    if not workers:
        text = _("It is due, but no running worker serves the queue %(queue)s. Start one:")
        return Explanation(text % words_of(task), runworker_command(task.queue))
    if not any(task.func_path in worker.tasks for worker in workers):
        return Explanation(unknown_task_sentence(task, workers))
    return Explanation(explain_limit(task, scope) or in_line_sentence(task, scope))


def in_line_sentence(task: Task, scope: Scope) -> str:
    ahead = statistics.ahead_of(task, scope.using)
    if not ahead:
        return _("It is due and first in its queue: the next free worker will run it.")
    text = ngettext(
        "%(count)s task is ahead of it in queue %(queue)s.",
        "%(count)s tasks are ahead of it in queue %(queue)s.",
        ahead,
    )
    if task.lane:
        text = ngettext(
            "%(count)s task is ahead of it in lane %(lane)s.",
            "%(count)s tasks are ahead of it in lane %(lane)s.",
            ahead,
        )
    return text % (words_of(task) | {"count": format_capped(ahead)})


def unknown_task_sentence(task: Task, workers: Sequence[Worker]) -> str:
    values = words_of(task) | {"count": str(len(workers))}
    if not any(worker.tasks for worker in workers):
        text = ngettext(
            "It is due, but the worker of its queue knows no task at all.",
            "It is due, but none of the %(count)s workers of its queue knows any task at all.",
            len(workers),
        )
        return f"{text % values} {no_tasks_advice(task.func_path)}"
    text = ngettext(
        "It is due, but the only worker of its queue does not know %(path)s.",
        "It is due, but none of the %(count)s workers of its queue knows %(path)s.",
        len(workers),
    )
    return f"{text % values} {unknown_task_advice(task.func_path)}"


def explain_running(task: Task, now: datetime) -> str:
    values = words_of(task) | {"time": format_elapsed(task.last_attempt_at or now, now)}
    if task.lock_expires_at and task.lock_expires_at <= now:
        values["expired"] = format_elapsed(task.lock_expires_at, now)
        lost = _("Its worker %(worker)s stopped responding: the lease expired %(expired)s ago.") % values
        return f"{lost} {_('Another worker will recover it.')}"
    running = _("Attempt %(spent)s of %(budget)s has been running for %(time)s on %(worker)s.") % values
    running = f"{running} {end_sentence(task, now) if task.deadline_at else ''}".rstrip()
    alone = _("It runs alone, because its process died twice in a row.")
    return f"{running} {alone}" if (task.crashes or 0) >= POISON_AFTER else running


def explain_success(task: Task) -> str:
    began, ended = task.last_attempt_at, task.finished_at
    text = _("It succeeded in the first attempt, which took %(time)s.")
    if task.spent > 1:
        text = _("It succeeded in attempt %(spent)s, which took %(time)s.")
    return text % (words_of(task) | {"time": format_elapsed(began, ended) if began and ended else NO_VALUE})


def explain_failed(task: Task) -> str:
    values = words_of(task)
    match (task.last_error or {}).get("code"):
        case Code.LEASE_LOST:
            return _("Its worker was lost during the last of %(budget)s attempts, so it is not retried.") % values
        case Code.CRASHED:
            return _("Its process died twice in a row, and so did the one in which it ran alone, so it is not retried.")
        case Code.ABORTED:
            return _("It raised Abort in attempt %(spent)s, so it is not retried.") % values
        case Code.BAD_ARGUMENTS:
            return _("Its arguments do not match the signature of the function, so a retry would fail as well.")
    if task.spent < task.max_attempts:
        return f"{_('It failed although attempts were left:')} {explain_policy(task)}"
    text = ngettext(
        "It failed after its only attempt, with %(error)s.",
        "It failed after all of its %(budget)s attempts, the last with %(error)s.",
        task.max_attempts,
    )
    return text % values


def explain_policy(task: Task) -> str:
    """Name the part of the policy that decided, if this process knows the function."""
    policy, text = registry.find_policy(task.func_path), _("the policy does not retry %(error)s.")
    if policy.abort_on:
        text = _("the policy does not retry %(error)s (abort_on).")
    elif policy.retry_on:
        text = _("the policy does not retry %(error)s (it is not in retry_on).")
    return text % words_of(task)


def explain_cancelled(events: Sequence[TaskEvent], *, can_see_payload: bool) -> str:
    cancelled = next((event for event in reversed(events) if event.kind == EventKind.CANCELLED), None)
    if cancelled is None:
        return _("It was cancelled.")
    reason = visible_reason((cancelled.data or {}).get("reason"), can_see_payload=can_see_payload)
    text = _("It was cancelled by %(by)s at %(time)s: %(reason)s")
    if not reason:
        text = _("It was cancelled by %(by)s at %(time)s.")
    by = actor_names({cancelled.actor})[cancelled.actor]
    return text % {"by": by, "time": format_moment(cancelled.ts), "reason": reason}


def explain_waiting(task: Task, now: datetime, using: str) -> str:
    key = task.waits_for or ""
    if (batch := batch_of(key)) is not None:
        counts = batch_counts(batch, using)
        text = ngettext(
            "It waits for %(open)s of %(total)s task.", "It waits for %(open)s of %(total)s tasks.", counts.total
        )
        return text % {"open": format_number(counts.open), "total": format_number(counts.total)}
    if key.startswith(CANARY):
        return explain_canaries(key, using)
    text = _("It waits for the signal %(name)s until %(time)s.")
    if (task.eta - now).total_seconds() > MAX_DELAY / 2:  # for ever
        text = _("It waits for the signal %(name)s.")
    return text % {"name": one_line(key.removeprefix(SIGNAL), 200), "time": format_moment(task.eta)}


def explain_canaries(key: str, using: str) -> str:
    standing = canary_standing(key, using)
    if standing is None:
        return _("It waits for canaries that cannot be read, so nothing wakes it. Cancel it, or run it now.")
    text = _(
        "It waits for %(total)s canaries, which were retried first: %(succeeded)s succeeded, %(open)s have not "
        "finished. It runs if at least %(needed)s succeed, else it is cancelled."
    )
    return text % standing._asdict()
