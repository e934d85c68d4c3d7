"""Tasks in a partitioned history, and where they lie."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from django.db import connections

from django_tasks_retry import taskqueue
from django_tasks_retry.errors import Abort
from django_tasks_retry.models import Step, Task, TaskEvent, TaskResult
from django_tasks_retry.taskqueue.retention import maintain
from django_tasks_retry.taskqueue.retention.layout import Partition, read_layout
from django_tasks_retry.taskqueue.retention.premake import create_partition
from tests import tasks

TABLE = Task._meta.db_table


def places(using: str, model: Any = Task) -> dict[str, int]:
    """How many rows lie in which table; the names without what all of them begin with."""
    table = model._meta.db_table
    with connections[using].cursor() as cursor:
        cursor.execute(f"SELECT tableoid::regclass::text FROM {table}")
        return dict(Counter(name.removeprefix(table).lstrip("_") for (name,) in cursor.fetchall()))


def done(count: int = 1, **options: Any) -> list[Task]:
    """Tasks that have succeeded."""
    made = Task.objects.enqueue_many([{"func": tasks.noop, **options}] * count)
    for lease in taskqueue.claim("worker", limit=count):
        taskqueue.complete_task(lease, {"n": 1})
    return made


def failed() -> Task:
    [task] = Task.objects.enqueue_many([tasks.noop])
    [lease] = taskqueue.claim("worker")
    taskqueue.fail_task(lease, Abort("test"))
    return task


def archive_all(using: str) -> int:
    layout = read_layout(using)
    assert layout is not None
    return sum(maintain.archive_pages(layout, using))


def make_room(using: str, *partitions: Partition) -> None:
    for partition in partitions:
        create_partition(partition, using)


def history_of(tasks: Sequence[Task]) -> tuple[int, int, int, int]:
    ids = [task.pk for task in tasks]
    return (
        Task.objects.filter(pk__in=ids).count(),
        TaskResult.objects.filter(task_id__in=ids).count(),
        TaskEvent.objects.filter(task_id__in=ids).count(),
        Step.objects.filter(task_id__in=ids).count(),
    )


def partitions(using: str) -> list[Partition]:
    layout = read_layout(using)
    return list(layout.partitions) if layout else []


def today(using: str) -> Partition:
    [first, *_] = partitions(using)
    return first
