"""Plan: make, change and delete schedules. Each decision is kept as an event, with who made it and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction

from ...clock import now
from ...conf import suggestion
from ...errors import InvalidSchedule
from ...models import Schedule
from ...models.schedules import TIMING_COLUMNS
from ...rules.payload import storable
from ...rules.schedules.declarations import KEYS, Declaration
from ..database import database
from ..events import actor_of
from .definition import DEFINED, checked_name, define, definition_of, found, planned
from .history import record


def create_schedule(
    *, name: str, task: Callable[..., Any] | str, by: Any = None, reason: str = "", **asked: Any
) -> Schedule:
    """Plan calls of a registered task. `asked`: cron or every, timezone, args, kwargs, overlap, late, starts_at, …"""
    checked_name(name)
    using = database(asked.get("backend") or found(task).backend)
    moment = now(using)
    definition = defined(task, asked, moment)
    schedule = Schedule(name=name, **definition, **planned(definition, moment), source="database", updated_at=moment)
    try:
        with transaction.atomic(using=using):
            schedule.save(using=using, force_insert=True)
            record("schedule.created", name, by=actor_of(by), reason=reason, using=using)
    except IntegrityError as error:
        if not Schedule.objects.using(using).filter(pk=name).exists():
            raise
        raise InvalidSchedule(
            f"There is a schedule {name!r} already. Change that one, or take another name."
        ) from error
    return schedule


def defined(task: Callable[..., Any] | str, asked: Mapping[str, Any], moment: datetime) -> dict[str, Any]:
    wishes = {key: value for key, value in asked.items() if key != "backend"}
    return define(task, declaration(wishes), moment=moment, backend=asked.get("backend"))


def declaration(wishes: Mapping[str, Any]) -> Declaration:
    for key in wishes:
        if key not in KEYS:
            raise InvalidSchedule(f"A schedule has no {key!r}.{suggestion(key, KEYS)}")
    return Declaration(**wishes)


def change_schedule(
    name: str, *, by: Any = None, reason: str = "", backend: str = "default", **changes: Any
) -> Schedule:
    """Change what was asked for. A new timing counts from now; other changes leave the next slot alone."""
    using = database(backend)
    with transaction.atomic(using=using):
        schedule = locked_schedule(name, using)
        if not schedule.is_editable:
            raise InvalidSchedule(
                f"The schedule {name!r} stands in the {schedule.source}: change it there, or pause it."
            )
        moment, before = now(using), definition_of(schedule)
        task = changes.pop("task", before.pop("func_path"))
        after = defined(task, {**before, **changes}, moment)
        changed = rewrite(schedule, after, moment, using)
        if changed:
            record("schedule.changed", name, by=actor_of(by), reason=reason, using=using, data={"changed": changed})
    return schedule


def rewrite(schedule: Schedule, definition: Mapping[str, Any], moment: datetime, using: str) -> list[str]:
    """Write what differs, and name it."""
    changed = [column for column in DEFINED if getattr(schedule, column) != definition[column]]
    values = {column: definition[column] for column in changed}
    if set(changed) & set(TIMING_COLUMNS):
        values |= planned(definition, moment)
    for column, value in values.items():
        setattr(schedule, column, value)
    if changed:
        schedule.updated_at = moment
        schedule.save(using=using, update_fields=[*values, "updated_at"])
    return changed


def delete_schedule(name: str, *, by: Any = None, reason: str = "", backend: str = "default") -> None:
    """Forget a schedule. Its tasks stay."""
    using = database(backend)
    with transaction.atomic(using=using):
        schedule = locked_schedule(name, using)
        if not schedule.is_editable and schedule.vanished_at is None:
            raise InvalidSchedule(
                f"The schedule {name!r} stands in the {schedule.source}: remove it there, or pause it."
            )
        schedule.delete(using=using)
        record("schedule.deleted", name, by=actor_of(by), reason=reason, using=using)


def locked_schedule(name: str, using: str) -> Schedule:
    rows = Schedule.objects.using(using).select_for_update(no_key=True)
    schedule: Schedule | None = rows.filter(pk=storable(name)).first()
    if schedule is None:
        names = Schedule.objects.using(using).values_list("name", flat=True)
        raise InvalidSchedule(f"There is no schedule {name!r}.{suggestion(name, names[:1000])}")
    return schedule
