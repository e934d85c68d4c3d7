"""Why late, asked about every task of a soak: its attempts and the parts of its wait take all of its time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import timedelta
from uuid import UUID

from django_tasks_retry.analysis.late import CAUSES, Late, split_waits
from django_tasks_retry.display.scope import current_scope
from django_tasks_retry.models import Task, TaskEvent
from django_tasks_retry.rules.transitions import EventKind
from django_tasks_retry.taskqueue import read_rows
from django_tasks_retry.taskqueue.reading import unreadable_columns

PAGE = 500


def complaints() -> Iterator[str]:
    """A task whose lease was lost is left out of the last rule: the end of that attempt is known by no event."""
    ids = list(Task.objects.order_by("pk").values_list("pk", flat=True))
    for n in range(0, len(ids), PAGE):
        stored = read_rows(Task.objects.filter(pk__in=ids[n : n + PAGE], finished_at__isnull=False))
        tasks = [task for task in stored if not unreadable_columns(task)]
        events = events_of(tasks)
        for task, late in zip(tasks, split_waits(tasks, current_scope()), strict=True):
            if text := wrong_with(task, late, events[task.pk]):
                yield f"why late, {task.pk}: {text}"


def events_of(tasks: Sequence[Task]) -> dict[UUID, list[TaskEvent]]:
    events = defaultdict(list)
    for event in read_rows(TaskEvent.objects.filter(task__in=tasks).order_by("id")):
        events[event.task_id].append(event)
    return events


def wrong_with(task: Task, late: Late, events: Sequence[TaskEvent]) -> str:
    total = max(task.finished_at or task.created_at, task.created_at) - task.created_at
    parts = sum((part.time for part in late.parts), timedelta())
    if parts != late.wait or parts + late.worked != total:
        return f"{parts} of parts, {late.wait} waited and {late.worked} worked in {total}"
    if odd := [part for part in late.parts if part.time <= timedelta() or part.cause not in CAUSES]:
        return f"odd parts: {odd}"
    is_lost = any(event.kind == EventKind.LEASE_LOST for event in events)
    worked = time_in_attempts(events)
    return "" if is_lost or worked == late.worked else f"its attempts took {worked}, and {late.worked} is left for them"


def time_in_attempts(events: Sequence[TaskEvent]) -> timedelta:
    total, began = timedelta(), None
    for event in events:
        if event.kind == EventKind.RUNNING:
            began = event.ts
        elif began is not None:
            total, began = total + (event.ts - began), None
    return total
