"""The retry preview: what will happen if the task keeps failing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ...conf import DEFAULTS, configured_backends, options
from ...display.formatting import format_duration, format_relative, one_line
from ...models import Task
from ...rules.backoff import Backoff, Custom, Exponential, Schedule, from_json
from ...rules.status import Status

MAX_STEPS = 10
MAX_ATTEMPTS = 1000
"""Of a task that may try more often, the end is not worked out."""


@dataclass(frozen=True, slots=True)
class Step:
    """A future attempt: how long after the previous failure, and when from now, as a range."""

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
    """Its own, or its backend's; the package's where the backend is gone from the settings."""
    known = task.backend in configured_backends()
    return from_json(task.backoff) or (options(task.backend) if known else DEFAULTS).backoff


def retry_preview(task: Task, now: datetime) -> RetryPreview:
    backoff, spent = backoff_of(task), task.spent
    policy = describe_policy(backoff, task)
    if task.is_finished:
        return RetryPreview(policy, [], 0, "")
    if isinstance(backoff, Custom):
        return RetryPreview(
            policy, [], 0, _("The backoff function sets the delay after each failure, until all attempts are used.")
        )
    if task.waits_for is not None:
        # Nobody knows when the next attempt begins.
        return RetryPreview(policy, [], 0, "")
    earliest = latest = max(task.eta, now)
    steps, attempt = [], spent + 1
    if task.status == Status.PENDING:
        steps.append(Step(attempt, "", format_relative(earliest, now) if earliest > now else _("now")))
        attempt += 1
    for following in range(attempt, min(task.max_attempts, attempt + MAX_ATTEMPTS) + 1):
        shortest, longest = backoff.delay(following - 1, -1), backoff.delay(following - 1, 1)
        earliest, latest = add_seconds(earliest, shortest), add_seconds(latest, longest)
        steps.append(Step(following, delay_range(shortest, longest), due_range(earliest, latest, now)))
    not_shown = max(0, task.max_attempts - spent - MAX_STEPS)
    end = end_sentence(latest, now) if not_shown < MAX_ATTEMPTS else ""
    return RetryPreview(policy, steps[:MAX_STEPS], not_shown, end)


def add_seconds(moment: datetime, seconds: float) -> datetime:
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        return moment


def delay_range(shortest: float, longest: float) -> str:
    if abs(longest - shortest) < 0.05:
        return format_duration(longest)
    return _("%(shortest)s to %(longest)s") % {
        "shortest": format_duration(shortest),
        "longest": format_duration(longest),
    }


def due_range(earliest: datetime, latest: datetime, now: datetime) -> str:
    return delay_range((earliest - now).total_seconds(), (latest - now).total_seconds())


def end_sentence(latest: datetime, now: datetime) -> str:
    return _("If every attempt fails immediately, the last one fails %(ago)s at the latest.") % {
        "ago": format_relative(latest, now)
    }


def describe_policy(backoff: Backoff, task: Task) -> str:
    budget = ngettext("%s attempt", "%s attempts", task.max_attempts) % task.max_attempts
    match backoff:
        case Exponential(base, factor, cap, jitter):
            text = _(
                "%(base)s after the first failure, then multiplied by %(factor)s, at most %(cap)s, ± %(jitter)s %%"
            )
            values = {
                "base": format_duration(base),
                "factor": f"{factor:g}",
                "cap": format_duration(cap),
                "jitter": f"{jitter * 100:g}",
            }
            return f"{budget}; {text % values}"
        case Schedule(delays):
            listed = ", ".join(format_duration(delay) for delay in delays[:MAX_STEPS]) + (
                "…" if len(delays) > MAX_STEPS else ""
            )
            delays_text = _("delays after failures: %(delays)s") % {"delays": listed}
            return f"{budget}; {delays_text}"
        case Custom(path):
            custom_text = _("delays set by %(path)s") % {"path": one_line(path)}
            return f"{budget}; {custom_text}"
