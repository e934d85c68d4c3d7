"""What a schedule asks for, checked as a whole before anything is written: one dictionary of columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone as django_timezone

from ... import registry
from ...conf import suggestion
from ...durations import as_seconds
from ...errors import InvalidCall, InvalidSchedule
from ...models import MAX_LENGTHS, Schedule, Task
from ...models.schedules import OVERLAPS, TIMING_COLUMNS
from ...rules.payload import checked_text
from ...rules.schedules.declarations import Declaration
from ...rules.schedules.timing import LONGEST, Timing, check_timing
from ..producer.enqueue import Request, checked_eta, prepare


def define(
    task: Callable[..., Any] | str, asked: Declaration, *, moment: datetime, backend: str | None = None
) -> dict[str, Any]:
    """The columns of a schedule, or an error that says what to write instead."""
    registered = found(task)
    call = checked_call(registered, asked, backend)
    timing = timing_of(asked)
    check_timing(replace(timing, anchor=timing.starts_at or moment), moment)
    return {
        "func_path": call.func_path,
        "args": call.args,
        "kwargs": call.kwargs,
        "backend": call.backend,
        "queue": asked.queue,
        "priority": asked.priority,
        **{column: getattr(timing, column) for column in TIMING_COLUMNS},
        "overlap": checked_overlap(asked.overlap),
        "late": None if asked.late is None else seconds_of("late", asked.late),
    }


def timing_of(asked: Declaration) -> Timing:
    return Timing(
        cron=asked.cron.strip() if isinstance(asked.cron, str) else asked.cron,
        every=None if asked.every is None else seconds_of("every", asked.every),
        timezone=asked.timezone or django_timezone.get_default_timezone_name(),
        starts_at=instant_of("starts_at", asked.starts_at),
        ends_at=instant_of("ends_at", asked.ends_at),
    )


def found(task: Callable[..., Any] | str) -> registry.AnyTask:
    """A registered task, by itself or by its path: a path is looked up, never imported."""
    if not isinstance(task, str):
        return registry.resolve(task)
    known = registry.find(task)
    if known is None:
        paths = registry.known_paths()
        raise InvalidSchedule(
            f"task={task!r} is not a registered task.{suggestion(task, paths)} "
            "Decorate it with @task in an app's tasks.py."
        )
    return known


def checked_call(registered: registry.AnyTask, asked: Declaration, backend: str | None) -> Task:
    """As it will be enqueued: with arguments that the function takes, in a queue that there is."""
    request = Request(registered.func, asked.args, asked.kwargs, queue=asked.queue, priority=asked.priority)
    return prepare(request._replace(backend=backend or registered.backend))


def checked_name(name: object) -> str:
    longest = MAX_LENGTHS["schedule_id"]
    if not isinstance(name, str) or not 1 <= len(name.strip()) <= len(name) <= longest:
        raise InvalidSchedule(f"name={name!r:.60}: give a text of 1 to {longest} characters.")
    return checked_text(name, "name")


def checked_overlap(overlap: object) -> str:
    known = [value for value, _ in OVERLAPS]
    if overlap not in known:
        raise InvalidSchedule(
            f"overlap={overlap!r}: give {', '.join(map(repr, known))}.{suggestion(str(overlap), known)}"
        )
    return str(overlap)


def seconds_of(field: str, value: float | timedelta) -> float:
    try:
        seconds = round(as_seconds(value), 3)
    except (TypeError, ValueError):
        seconds = -1.0
    if not 0 <= seconds <= LONGEST:
        raise InvalidSchedule(f"{field}={value!r}: give a timedelta, or seconds, at most ten years.")
    return seconds


def instant_of(field: str, value: datetime | None) -> datetime | None:
    try:
        return None if value is None else checked_eta(value)
    except InvalidCall as error:
        raise InvalidSchedule(str(error).replace("eta=", f"{field}=").replace(", or a timedelta", "")) from None


def planned(definition: Mapping[str, Any], moment: datetime) -> dict[str, Any]:
    """A timing counts from now."""
    anchor = definition["starts_at"] or moment
    timing = Timing(anchor=anchor, **{column: definition[column] for column in TIMING_COLUMNS})
    return {"anchor": anchor, "next_at": timing.after(moment)}


def definition_of(schedule: Schedule) -> dict[str, Any]:
    """What was asked for, as it is stored."""
    return {column: getattr(schedule, column) for column in DEFINED}


DEFINED = ("func_path", "args", "kwargs", "backend", "queue", "priority", *TIMING_COLUMNS, "overlap", "late")
