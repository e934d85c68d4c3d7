"""The retry preview: what will happen if the task keeps failing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ...conf import options
from ...models import Task
from ...rules.backoff import Backoff, Custom, Exponential, Schedule, from_json
from ...rules.status import Status
from ..display.formatting import ago, duration, line

SHOWN = 10


@dataclass(frozen=True, slots=True)
class Step:
    """One attempt to come: how long after the failure before it, and when at the earliest and the latest."""

    attempt: int
    delay: str
    due: str


@dataclass(frozen=True, slots=True)
class RetryPreview:
    policy: str
    steps: list[Step]
    not_shown: int
    end: str


def backoff_of(task: Task) -> Backoff:
    return from_json(task.backoff) or options(task.backend).backoff


def retry_preview(task: Task, now: datetime) -> RetryPreview:
    backoff, spent = backoff_of(task), task.attempts - task.refunds
    policy = in_words(backoff, task)
    if task.is_finished:
        return RetryPreview(policy, [], 0, "")
    if isinstance(backoff, Custom):
        return RetryPreview(policy, [], 0, _("The function decides after each failure, until the budget is spent."))
    earliest = latest = max(task.eta, now)
    steps, attempt = [], spent + 1
    if task.status == Status.PENDING:
        steps.append(Step(attempt, "", ago(earliest, now) if earliest > now else _("now")))
        attempt += 1
    for following in range(attempt, task.max_attempts + 1):
        shortest, longest = backoff.delay(following - 1, -1), backoff.delay(following - 1, 1)
        earliest, latest = later(earliest, shortest), later(latest, longest)
        steps.append(Step(following, span(shortest, longest), due_text(earliest, latest, now)))
    return RetryPreview(policy, steps[:SHOWN], max(0, len(steps) - SHOWN), gives_up(latest, now))


def later(moment: datetime, seconds: float) -> datetime:
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        return moment


def span(shortest: float, longest: float) -> str:
    if abs(longest - shortest) < 0.05:
        return duration(longest)
    return _("%(shortest)s to %(longest)s") % {"shortest": duration(shortest), "longest": duration(longest)}


def due_text(earliest: datetime, latest: datetime, now: datetime) -> str:
    return span((earliest - now).total_seconds(), (latest - now).total_seconds())


def gives_up(latest: datetime, now: datetime) -> str:
    return _("If every attempt fails at once, it gives up %(ago)s at the latest.") % {"ago": ago(latest, now)}


def in_words(backoff: Backoff, task: Task) -> str:
    budget = ngettext("%s attempt", "%s attempts", task.max_attempts) % task.max_attempts
    match backoff:
        case Exponential(base, factor, cap, jitter):
            text = _(
                "%(base)s after the first failure, then times %(factor)s, at most %(cap)s, give or take %(jitter)s %%"
            )
            told = {
                "base": duration(base),
                "factor": f"{factor:g}",
                "cap": duration(cap),
                "jitter": f"{jitter * 100:g}",
            }
            return f"{budget}; {text % told}"
        case Schedule(delays):
            listed = ", ".join(duration(delay) for delay in delays[:SHOWN]) + ("…" if len(delays) > SHOWN else "")
            return f"{budget}; {_('after failures: %(delays)s') % {'delays': listed}}"
        case Custom(path):
            return f"{budget}; {_('%(path)s decides when') % {'path': line(path)}}"
