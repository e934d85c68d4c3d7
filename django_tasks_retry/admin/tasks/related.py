"""Tasks that a task has to do with: retries, parent, children, and the others of its run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import F
from django.utils.translation import gettext as _

from ...display.formatting import one_line
from ...models import Task
from ...rules.names import short_id, short_name

MAX_RELATED = 10


@dataclass(frozen=True, slots=True)
class Relation:
    name: str
    tasks: list[dict[str, Any]]
    more: bool


def related_tasks(task: Task, using: str) -> list[Relation]:
    """Each found by an index that holds only tasks with such a relation."""
    tasks = some_tasks(using)
    # The root of a run is not in the index of its members, but its id is the run's.
    run = [*tasks.filter(run_id=task.run_id).exclude(run_id=F("id")).exclude(pk=task.pk)[: MAX_RELATED + 1]]
    if task.run_id != task.pk and len(run) <= MAX_RELATED:
        run += [*tasks.filter(pk=task.run_id)]
    found = {
        _("Retry of"): [*tasks.filter(pk=task.retry_of_id)] if task.retry_of_id else [],
        _("Parent"): [*tasks.filter(pk=task.parent_id)] if task.parent_id else [],
        _("Children"): [*tasks.filter(parent=task.pk)[: MAX_RELATED + 1]],
        _("Same run"): [each for each in run if each.retry_of_id != task.pk],
    }
    return [relation(name, some) for name, some in found.items() if some]


def retries_of(task: Task, using: str) -> Relation | None:
    """The tasks that this one was retried as, the newest first; None where there are none."""
    retries = [*some_tasks(using).filter(retry_of=task.pk)[: MAX_RELATED + 1]]
    return relation(_("Retried as"), retries) if retries else None


def some_tasks(using: str) -> Any:
    return Task.objects.using(using).order_by("-pk").only("pk", "func_path", "status", "retry_of_id")


def relation(name: str, tasks: Sequence[Task]) -> Relation:
    return Relation(name, [related_task(each) for each in tasks[:MAX_RELATED]], len(tasks) > MAX_RELATED)


def related_task(task: Task) -> dict[str, Any]:
    return {
        "pk": task.pk,
        "id": short_id(task.pk),
        "name": one_line(short_name(task.func_path), 60),
        "status": task.get_status_display(),
    }
