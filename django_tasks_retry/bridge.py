"""Our rows in the words of `django.tasks`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

from . import registry
from .compat import TaskError, TaskResult, TaskResultDoesNotExist, TaskResultStatus
from .errors import TaskCancelled
from .models import Task, TaskEvent
from .registry import AnyTask
from .rules.backoff import path_of
from .rules.status import Status
from .rules.transitions import EventKind
from .taskqueue import Lease, database

AnyResult: TypeAlias = "TaskResult[Any, Any]"

IN_DJANGO = {
    Status.PENDING: TaskResultStatus.READY,
    Status.RUNNING: TaskResultStatus.RUNNING,
    Status.SUCCESS: TaskResultStatus.SUCCESSFUL,
    Status.FAILED: TaskResultStatus.FAILED,
    Status.CANCELLED: TaskResultStatus.FAILED,
}
TOLD_IN_RESULTS = (EventKind.RUNNING, EventKind.FAILED, EventKind.CANCELLED)
FINAL = (Status.SUCCESS, Status.FAILED)
LOST = "django_tasks_retry.errors.LeaseLost"


def read_result(result_id: str, backend: str) -> AnyResult:
    """The stored result of this id; ids that cannot be ours are refused before the database is asked."""
    try:
        task_id = UUID(result_id)
    except (AttributeError, TypeError, ValueError):
        raise TaskResultDoesNotExist(result_id) from None
    using = database(backend)
    row = Task.objects.using(using).select_related("outcome").filter(pk=task_id, backend=backend).first()
    task = registry.find(row.func_path) if row else None
    if row is None or task is None:
        raise TaskResultDoesNotExist(result_id)
    events = TaskEvent.objects.using(using).filter(task_id=row.pk, kind__in=TOLD_IN_RESULTS)
    return as_result(row, variant(task, row), list(events))


def variant(task: AnyTask, row: Task | Lease) -> AnyTask:
    """The task as it was enqueued: its own queue, priority, backend and eta."""
    wanted: dict[str, Any] = {
        "priority": row.priority,
        "queue_name": row.queue,
        "backend": row.backend,
        "run_after": run_after(row),
    }
    if all(getattr(task, name) == value for name, value in wanted.items()):
        return task
    return task.using(**{name: value for name, value in wanted.items() if value is not None})


def run_after(row: Task | Lease) -> datetime | None:
    return None if row.eta == row.created_at else row.eta


def as_result(row: Task, task: AnyTask, events: Sequence[TaskEvent] = ()) -> AnyResult:
    result: AnyResult = TaskResult(
        task=task,
        id=str(row.pk),
        status=IN_DJANGO[Status(row.status)],
        enqueued_at=row.created_at,
        started_at=row.started_at,
        last_attempted_at=row.last_attempt_at,
        finished_at=row.finished_at,
        args=row.args,
        kwargs=row.kwargs,
        backend=row.backend,
        errors=list(errors_of(events)),
        worker_ids=workers_of(events),
    )
    if row.status == Status.SUCCESS:
        object.__setattr__(result, "_return_value", row.outcome.result)
    return result


def workers_of(events: Iterable[TaskEvent]) -> list[str]:
    return [event.actor for event in events if event.kind == EventKind.RUNNING]


def errors_of(events: Iterable[TaskEvent]) -> Iterable[TaskError]:
    """One per failed attempt, and one for a cancellation."""
    for event in events:
        if event.kind == EventKind.FAILED:
            error = event.data["error"]
            yield TaskError(
                exception_class_path=error["exception"] or LOST, traceback=error["traceback"] or error["message"]
            )
        elif event.kind == EventKind.CANCELLED:
            reason = event.data.get("reason") or "no reason given"
            yield TaskError(
                exception_class_path=path_of(TaskCancelled), traceback=f"Cancelled by {event.actor}: {reason}"
            )


def running_result(lease: Lease, task: AnyTask) -> AnyResult:
    """What signals and the context see of the attempt that begins. Asks the database only about earlier attempts."""
    earlier: list[TaskEvent] = []
    if lease.attempts > 1:
        told = TaskEvent.objects.using(database(lease.backend)).filter(task_id=lease.id, attempt__lt=lease.attempts)
        earlier = list(told.filter(kind__in=TOLD_IN_RESULTS))
    return TaskResult(
        task=variant(task, lease),
        id=str(lease.id),
        status=TaskResultStatus.RUNNING,
        enqueued_at=lease.created_at,
        started_at=lease.started_at,
        last_attempted_at=lease.last_attempt_at,
        finished_at=None,
        args=lease.args,
        kwargs=lease.kwargs,
        backend=lease.backend,
        errors=list(errors_of(earlier)),
        worker_ids=[*workers_of(earlier), lease.locked_by],
    )
