"""What would be imported, and what would not, and why. Nothing is written before it is carried out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..clock import now
from ..errors import InvalidSchedule, TaskQueueError
from ..models import Schedule
from ..taskqueue import create_schedule, database, pause_schedule
from ..taskqueue.schedules.definition import define
from ..taskqueue.schedules.plan import declaration
from . import celery_beat, crontab, django_q
from .found import Found

ACTOR = "import"


@dataclass(frozen=True, slots=True)
class Importable:
    """One schedule that can come along."""

    name: str
    task: str
    asked: dict[str, Any]
    is_paused: bool = False


@dataclass(frozen=True, slots=True)
class NotImportable:
    """One that cannot, and what to do about it."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class ImportPlan:
    importable: list[Importable] = field(default_factory=list)
    not_importable: list[NotImportable] = field(default_factory=list)


def plan_import(source: str, *, path: str | None = None, backend: str = "default") -> ImportPlan:
    """Read a source and check each schedule as if it were made by hand."""
    if source not in SOURCES:
        raise InvalidSchedule(f"{source!r} is not a source. Give one of {', '.join(SOURCES)}.")
    if (source == "crontab-file") != (path is not None):
        raise InvalidSchedule("Give the path of the file with crontab-file, and with nothing else.")
    plan, using = ImportPlan(), database(backend)
    taken = set(Schedule.objects.using(using).values_list("name", flat=True))
    for found in SOURCES[source](path, using):
        try:
            plan.importable.append(checked(found, taken, using))
        except TaskQueueError as error:
            plan.not_importable.append(NotImportable(found.name, str(error)))
        taken.add(found.name)
    return plan


def checked(found: Found, taken: set[str], using: str) -> Importable:
    if found.problem:
        raise InvalidSchedule(found.problem)
    if found.name in taken:
        raise InvalidSchedule("A schedule of this name exists already.")
    define(found.task, declaration(found.asked), moment=now(using))
    return Importable(found.name, found.task, found.asked, found.is_paused)


def carry_out(plan: ImportPlan, *, by: Any = ACTOR, backend: str = "default") -> list[str]:
    """Make the schedules, all from now on; those that were switched off come paused. Returns their names."""
    for one in plan.importable:
        create_schedule(name=one.name, task=one.task, by=by, reason="imported", backend=backend, **one.asked)
        if one.is_paused:
            pause_schedule(one.name, by=by, reason="it was switched off where it came from", backend=backend)
    return [one.name for one in plan.importable]


def read_file(path: str | None, using: str) -> Iterable[Found]:
    try:
        return crontab.read(Path(path or "").read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSchedule(f"{path} cannot be read: {error}") from None


SOURCES: dict[str, Callable[[str | None, str], Iterable[Found]]] = {
    "django-celery-beat": lambda _, using: celery_beat.read(using),
    "django-q2": lambda _, using: django_q.read(using),
    "crontab-file": read_file,
}
