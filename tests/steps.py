"""Steps of a task's life, as the tests of the core take them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from django_tasks_retry import taskqueue
from django_tasks_retry.errors import Abort
from django_tasks_retry.models import Task, TaskEvent, TaskResult
from django_tasks_retry.rules.names import path_of
from django_tasks_retry.rules.policy import policy_of
from django_tasks_retry.rules.status import Status
from django_tasks_retry.taskqueue import EnqueueOptions, Lease
from django_tasks_retry.taskqueue.enqueue.checks import effective_policy
from django_tasks_retry.taskqueue.enqueue.enqueue import prepare
from django_tasks_retry.taskqueue.enqueue.insert import insert
from tests import tasks


def stopped() -> float:
    """A clock for a claimer by which no statement is slow and nothing is forgotten, however busy the machine is."""
    return 0.0


class Clock:
    """A clock for a claimer that a test moves. With a `step`, each reading is so much later than the one before."""

    def __init__(self, step: float = 0.0) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now

    def advance(self, seconds: float = 10.0) -> None:
        """Move on; unless told otherwise, until everything is refreshed and all that was full is tried again."""
        self.now += seconds


def enqueue(func=tasks.noop, *args: Any, **options: Any) -> Task:
    return Task.objects.enqueue(func, args, **options)


def enqueue_unchecked(task: Any, args: Any = (), **options: Any) -> Task:
    """A call that may not fit its function, as is left behind by a deploy that changed the function."""
    prepared = prepare(EnqueueOptions(tasks.noop, args))
    vars(prepared).update(effective_policy(EnqueueOptions(task, **options), policy_of(task.func), prepared.backend))
    prepared.func_path = path_of(task.func)
    return insert([prepared], taskqueue.database())[0]


def claim_one(worker: str = "worker", **options: Any) -> Lease:
    [lease] = taskqueue.claim(worker, **options)
    return lease


def begin(worker: str = "worker", **options: Any) -> tuple[Task, Lease]:
    """A running task and its lease."""
    task = enqueue(**options)
    lease = claim_one(worker)
    assert lease.id == task.pk
    return now_of(task), lease


def task_in(status: Status) -> tuple[Task, Lease]:
    """A task in this status, and the last lease that was given on it."""
    task, lease = begin()
    match status:
        case Status.PENDING:
            taskqueue.release_task(lease, "test")
        case Status.SUCCESS:
            taskqueue.complete_task(lease, "done")
        case Status.FAILED:
            taskqueue.fail_task(lease, Abort("test"))
        case Status.CANCELLED:
            task.cancel(by="test")
    return now_of(task), lease


def now_of(task: Task) -> Task:
    """The row as it stands."""
    return Task.objects.get(pk=task.pk)


def kinds(task: Task) -> list[str]:
    return list(TaskEvent.objects.filter(task_id=task.pk).values_list("kind", flat=True))


def everything(task: Task) -> tuple[Any, ...]:
    """Every column of the task, its events and its result: what must not change when a move is refused."""
    return (
        list(Task.objects.filter(pk=task.pk).values()),
        list(TaskEvent.objects.filter(task_id=task.pk).values()),
        list(TaskResult.objects.filter(task_id=task.pk).values()),
    )


@contextmanager
def refused_by_the_database(task: Task, using: str):
    """What is done inside fails in the database and leaves no trace."""
    before = everything(task)
    with pytest.raises(IntegrityError), transaction.atomic(using=using):
        yield
    assert everything(task) == before


def delay_of(task: Task) -> float:
    """Seconds between the last move and the next attempt, by the clock that made the move."""
    return (task.eta - task.updated_at).total_seconds()
