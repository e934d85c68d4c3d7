"""Edit schedules: create, change, delete, run now. Each decision is recorded, with actor and reason."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone as django_timezone

from ... import registry
from ...clock import now
from ...conf import is_sharded, shard_backends, suggestion
from ...durations import checked_seconds
from ...errors import InvalidCall, InvalidSchedule
from ...models import MAX_LENGTHS, OVERLAPS, TIMING_COLUMNS, Schedule, Task
from ...rules.payload import checked_name, storable
from ...rules.schedules.declarations import ScheduleDeclaration, check_keys
from ...rules.schedules.timing import Timing, check_timing
from ..database import database
from ..enqueue.checks import checked_instant
from ..enqueue.enqueue import prepare
from ..enqueue.options import EnqueueOptions
from ..events import actor_of, write_operator_event
from ..reading import read_row, unreadable_columns
from ..shards import belonging, home_of, is_up

DUE_NOW = timedelta(0)


def create_schedule(
    *, name: str, task: Callable[..., Any] | str, by: Any = None, reason: str = "", **asked: Any
) -> Schedule:
    """Plan calls of a registered task. `asked`: the keywords of `@schedule`, and `backend`."""
    checked_schedule_name(name)
    backend = asked.get("backend") or registered_task(task).backend
    using = database(backend)
    moment = now(using)
    definition = defined(task, asked, moment)
    schedule = Schedule(
        name=name, **definition, **planned_columns(definition, moment), source="database", updated_at=moment
    )
    if is_sharded(backend):
        schedule.backend = home_of(key_of(schedule), backend)
        using = database(schedule.backend)
    try:
        with transaction.atomic(using=using):
            schedule.save(using=using, force_insert=True)
            write_operator_event("schedule.created", name, actor_of(by), reason, using)
    except IntegrityError as error:
        if not Schedule.objects.using(using).filter(pk=name).exists():
            raise
        raise InvalidSchedule(
            f"There is a schedule {name!r} already. Change that one, or take another name."
        ) from error
    return schedule


def defined(task: Callable[..., Any] | str, asked: Mapping[str, Any], moment: datetime) -> dict[str, Any]:
    wishes = {key: value for key, value in asked.items() if key != "backend"}
    return define_schedule(task, read_declaration(wishes), moment=moment, backend=asked.get("backend"))


def read_declaration(wishes: Mapping[str, Any]) -> ScheduleDeclaration:
    check_keys(wishes)
    return ScheduleDeclaration(**wishes)


def change_schedule(
    name: str, *, by: Any = None, reason: str = "", backend: str = "default", **changes: Any
) -> Schedule:
    """Change what was asked for. A new timing counts from now; other changes leave the next slot alone."""
    using = database(shard_with_schedule(name, backend))
    with transaction.atomic(using=using):
        schedule = locked_schedule(name, using)
        if not schedule.is_editable:
            raise InvalidSchedule(
                f"The schedule {name!r} stands in the {schedule.source}: change it there, or pause it."
            )
        check_readable(schedule)
        moment, before = now(using), {column: getattr(schedule, column) for column in DEFINED}
        task = changes.pop("task", before.pop("func_path"))
        after = defined(task, {**before, **changes}, moment)
        changed = rewrite(schedule, after, moment, using)
        if changed:
            write_operator_event("schedule.changed", name, actor_of(by), reason, using, {"changed": changed})
    return schedule


def rewrite(schedule: Schedule, definition: Mapping[str, Any], moment: datetime, using: str) -> list[str]:
    """Write what differs, and name it."""
    unreadable = unreadable_columns(schedule)
    changed = [name for name in DEFINED if name in unreadable or getattr(schedule, name) != definition[name]]
    values = {column: definition[column] for column in changed}
    if set(changed) & set(TIMING_COLUMNS):
        values |= planned_columns(definition, moment)
    for column, value in values.items():
        setattr(schedule, column, value)
    if changed:
        schedule.updated_at = moment
        schedule.save(using=using, update_fields=[*values, "updated_at"])
    return changed


def delete_schedule(name: str, *, by: Any = None, reason: str = "", backend: str = "default") -> None:
    """Delete a schedule. Its tasks stay."""
    using = database(shard_with_schedule(name, backend))
    with transaction.atomic(using=using):
        schedule = locked_schedule(name, using)
        if not schedule.is_editable and schedule.vanished_at is None:
            raise InvalidSchedule(
                f"The schedule {name!r} stands in the {schedule.source}: remove it there, or pause it."
            )
        schedule.delete(using=using)
        write_operator_event("schedule.deleted", name, actor_of(by), reason, using)


def key_of(schedule: Schedule) -> str:
    """Return the key by which a schedule is placed: that of its tasks, which without any other is its name."""
    return belonging(task_for(schedule)) or schedule.name


def shard_with_schedule(name: str, backend: str) -> str:
    """Return the backend of the shard that holds the schedule."""
    if not is_sharded(backend):
        return backend
    shards = [backend, *shard_backends(backend)]
    holders = (
        each for each in filter(is_up, shards) if Schedule.objects.using(database(each)).filter(pk=name).exists()
    )
    return next(holders, backend)


def locked_schedule(name: str, using: str) -> Schedule:
    """Lock it, also if a part of it cannot be read: it can be paused and deleted."""
    rows = Schedule.objects.using(using).select_for_update(no_key=True)
    schedule: Schedule | None = read_row(rows, storable(name))
    if schedule is None:
        names = Schedule.objects.using(using).values_list("name", flat=True)
        raise InvalidSchedule(f"There is no schedule {name!r}.{suggestion(name, names[:1000])}")
    return schedule


def define_schedule(
    task: Callable[..., Any] | str, asked: ScheduleDeclaration, *, moment: datetime, backend: str | None = None
) -> dict[str, Any]:
    """The columns of a schedule, or an error that says what to write instead."""
    registered = registered_task(task)
    request = EnqueueOptions(registered.func, asked.args, asked.kwargs, queue=asked.queue, priority=asked.priority)
    call = prepare(request._replace(backend=backend or registered.backend))
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
        "misfire_grace": None if asked.misfire_grace is None else seconds_of("misfire_grace", asked.misfire_grace),
    }


def timing_of(asked: ScheduleDeclaration) -> Timing:
    return Timing(
        cron=asked.cron.strip() if isinstance(asked.cron, str) else asked.cron,
        every=None if asked.every is None else seconds_of("every", asked.every),
        timezone=asked.timezone or django_timezone.get_default_timezone_name(),
        starts_at=instant_of("starts_at", asked.starts_at),
        ends_at=instant_of("ends_at", asked.ends_at),
    )


def registered_task(task: Callable[..., Any] | str) -> registry.AnyTask:
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


def checked_schedule_name(name: object) -> str:
    is_blank = isinstance(name, str) and not name.strip()
    return checked_name("" if is_blank else name, "name", MAX_LENGTHS["schedule_id"], InvalidSchedule)


def checked_overlap(overlap: object) -> str:
    known = [value for value, _ in OVERLAPS]
    if overlap not in known:
        raise InvalidSchedule(
            f"overlap={overlap!r}: give {', '.join(map(repr, known))}.{suggestion(str(overlap), known)}"
        )
    return str(overlap)


def seconds_of(field: str, value: float | timedelta) -> float:
    wrong = InvalidSchedule(f"{field}={value!r}: give a timedelta, or seconds, at most ten years.")
    return round(checked_seconds(value, wrong), 3)


def instant_of(field: str, value: datetime | None) -> datetime | None:
    try:
        return None if value is None else checked_instant(field, value)
    except InvalidCall as error:
        raise InvalidSchedule(str(error).replace(", or a timedelta", "")) from None


def planned_columns(definition: Mapping[str, Any], moment: datetime) -> dict[str, Any]:
    """A timing counts from now."""
    anchor = definition["starts_at"] or moment
    timing = Timing(anchor=anchor, **{column: definition[column] for column in TIMING_COLUMNS})
    return {"anchor": anchor, "next_at": timing.after(moment)}


def check_readable(schedule: Schedule) -> None:
    if columns := unreadable_columns(schedule):
        raise InvalidSchedule(f"It cannot be read: {', '.join(columns)}. Delete it, and create it again.")


def task_for(schedule: Schedule, slot: datetime | None = None) -> Task:
    """Prepare a run. Raises if the row names a function or arguments that this process cannot call."""
    check_readable(schedule)
    registered = registered_task(schedule.func_path)
    request = EnqueueOptions(registered.func, schedule.args, schedule.kwargs, eta=DUE_NOW, backend=schedule.backend)
    task = prepare(request._replace(queue=schedule.queue, priority=schedule.priority))
    task.schedule_id, task.slot = schedule.name, slot
    return task


DEFINED = ("func_path", "args", "kwargs", "backend", "queue", "priority", *TIMING_COLUMNS, "overlap", "misfire_grace")
