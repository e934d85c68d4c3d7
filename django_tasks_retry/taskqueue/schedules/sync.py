"""Sync the rows of schedules with code and settings: what this process lists, and what no live worker lists."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import transaction

from ... import registry
from ...clock import now
from ...conf import is_sharded, named_in_settings, options
from ...errors import InvalidSchedule, TaskQueueError
from ...models import OperatorEvent, Schedule
from ...rules.schedules.declarations import ScheduleDeclaration, declarations_of
from ...utc import as_instant
from ..database import database
from ..events import operator_event, write_operator_event
from ..reading import read_rows, unreadable_columns
from ..shards import is_owner
from ..workers import alive_workers, sound_workers
from .edit import (
    checked_schedule_name,
    define_schedule,
    key_of,
    locked_schedule,
    planned_columns,
    read_declaration,
    rewrite,
)

logger = logging.getLogger("django_tasks_retry")
ACTOR = "code"
LONG_AGO = timedelta(days=3660)
PAGE = 500  # schedules that are read, checked and created at a time: within the time that a worker gives a call


class Listed(NamedTuple):
    """One schedule that this process lists, unchecked. `where` names its place in settings or code."""

    name: str
    task: Any
    asked: Any
    source: str
    where: str


def listed_schedules(backend: str = "default") -> Iterator[Listed]:
    """Yield them unchecked, with duplicate names."""
    for path in registry.known_paths():
        task = registry.find(path)
        for declared in declarations_of(task.func) if task and task.backend == named_in_settings(backend) else ():
            yield Listed(declared.name or path, task, declared, "code", f"@schedule on {path}")
    for name, asked in options(backend).schedules.items():
        task = asked.get("task") if isinstance(asked, Mapping) else None
        yield Listed(name, task, asked, "settings", f"TASKS[{backend!r}]['OPTIONS']['SCHEDULES'][{name!r}]")


def listed_names(backend: str = "default") -> list[str]:
    return sorted({str(listed.name) for listed in listed_schedules(backend)})


def definition_in_code(listed: Listed, backend: str, moment: datetime) -> dict[str, Any]:
    """Return the columns it asks for, or raise an error that says what to write instead."""
    checked_schedule_name(listed.name)
    asked = listed.asked if isinstance(listed.asked, ScheduleDeclaration) else in_settings(listed)
    if isinstance(asked.ends_at, datetime):
        # One that has ended is no error in the code: deploys go on.
        moment = min(moment, as_instant(asked.ends_at) - LONG_AGO)
    return define_schedule(listed.task, asked, moment=moment, backend=backend)


def in_settings(listed: Listed) -> ScheduleDeclaration:
    if listed.task is None:
        raise InvalidSchedule("Give a dictionary with 'task', the path of a registered task, and 'cron' or 'every'.")
    return read_declaration({key: value for key, value in listed.asked.items() if key != "task"})


def schedule_problems(backend: str, moment: datetime) -> Iterator[tuple[str, str]]:
    """Yield the place of each wrong schedule, and what to do."""
    places: dict[str, str] = {}
    for listed in listed_schedules(backend):
        if listed.name in places:
            yield (
                listed.where,
                f"The name {listed.name!r} is taken by {places[listed.name]}. Give each a name=… of its own.",
            )
        places.setdefault(listed.name, listed.where)
        try:
            definition_in_code(listed, backend, moment)
        except TaskQueueError as error:
            yield listed.where, str(error)


def sync_schedules(*, backend: str = "default") -> Iterator[int]:
    """Write the schedules that this process lists, and yield the size of each page, which is complete by then.

    Others are left alone: another worker may list them.
    """
    listed = list({one.name: one for one in listed_schedules(backend)}.values())
    for start in range(0, len(listed), PAGE):
        page = listed[start : start + PAGE]
        sync_page(page, backend, database(backend))
        yield len(page)


def sync_page(page: Sequence[Listed], backend: str, using: str) -> None:
    moment = now(using)
    stored = read_rows(Schedule.objects.using(using).filter(pk__in=[str(one.name) for one in page]))
    rows = {row.name: row for row in stored}
    fresh = []
    for one in page:
        name = one.name
        try:
            definition = definition_in_code(one, backend, moment)
            if is_sharded(backend) and not is_home(name, definition, backend):
                continue
            if name not in rows:
                fresh.append((one, definition))
            elif is_behind(rows[name], one, definition):
                follow(one, definition, moment, using)
        except TaskQueueError as error:
            logger.error("the schedule %r is left as it was: %s", name, error)
    if fresh:
        create(fresh, moment, using)


def is_home(name: str, definition: Mapping[str, Any], backend: str) -> bool:
    """Return whether the tasks of this schedule belong to this shard."""
    return is_owner(key_of(Schedule(name=name, **definition)), backend)


def is_behind(row: Schedule, listed: Listed, definition: Mapping[str, Any]) -> bool:
    wanted = {"vanished_at": None, "source": listed.source, **definition}
    return bool(unreadable_columns(row)) or any(getattr(row, column) != value for column, value in wanted.items())


def create(fresh: Sequence[tuple[Listed, Mapping[str, Any]]], moment: datetime, using: str) -> None:
    """Create the rows of these schedules in one transaction. If another worker was quicker, its row and event stay."""
    rows = [
        Schedule(
            name=listed.name,
            source=listed.source,
            updated_at=moment,
            **definition,
            **planned_columns(definition, moment),
        )
        for listed, definition in fresh
    ]
    with transaction.atomic(using=using):
        Schedule.objects.using(using).bulk_create(rows, ignore_conflicts=True)
        ours = Schedule.objects.using(using).filter(pk__in=[row.pk for row in rows], updated_at=moment)
        names = set(ours.values_list("pk", flat=True))
        OperatorEvent.objects.using(using).bulk_create(
            operator_event("schedule.created", listed.name, ACTOR, listed.where, moment)
            for listed, _ in fresh
            if listed.name in names
        )


def follow(listed: Listed, definition: Mapping[str, Any], moment: datetime, using: str) -> None:
    with transaction.atomic(using=using):
        row = locked_schedule(listed.name, using)
        if row.is_editable:
            raise InvalidSchedule(
                f"{listed.where} has the name of a schedule in the database. Rename one of them, or delete that one."
            )
        changed = rewrite(row, definition, moment, using)
        if row.vanished_at is not None or row.source != listed.source:
            row.vanished_at, row.source = None, listed.source
            row.next_at = row.timing.after(moment)
            row.save(using=using, update_fields=["vanished_at", "source", "next_at"])
            changed.append("source")
        if changed:
            write_operator_event("schedule.changed", listed.name, ACTOR, listed.where, using, {"changed": changed})


def stop_vanished(*, backend: str = "default") -> list[str]:
    """Stop schedules of code that no live worker lists any more, and name them. Rolling deploys end in this."""
    using = database(backend)
    rows = Schedule.objects.using(using).filter(backend=backend, vanished_at__isnull=True).exclude(source="database")
    names = set(rows.values_list("name", flat=True))
    if not names:
        return []
    alive = sound_workers(alive_workers(backend).filter(backend=backend).only("schedules"))
    gone = sorted(names - {name for worker in alive for name in worker.schedules or ()})
    return [name for name in gone if stop_one(name, using)]


def stop_one(name: str, using: str) -> bool:
    with transaction.atomic(using=using):
        moment = now(using)
        stopped = Schedule.objects.using(using).filter(pk=name, vanished_at__isnull=True).update(vanished_at=moment)
        if stopped:
            why = "no live worker has it in its code any more"
            write_operator_event("schedule.vanished", name, ACTOR, why, using)
    return bool(stopped)
