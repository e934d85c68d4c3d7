"""All pairs of statuses, tried in four ways: only the pairs of the table of legal moves get through."""

from __future__ import annotations

import itertools
import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections, transaction

from django_tasks_retry import taskqueue
from django_tasks_retry.clock import now
from django_tasks_retry.errors import Abort, IllegalMove, LeaseLost
from django_tasks_retry.models import Task, TaskResult
from django_tasks_retry.rules.status import FINISHED, Status
from django_tasks_retry.rules.transitions import LEGAL_PAIRS
from django_tasks_retry.taskqueue import Lease
from django_tasks_retry.utc import sqlite_text
from tests.steps import everything, now_of, refused_by_the_database, task_in

ALL_PAIRS = list(itertools.product(Status, Status))
each_pair = pytest.mark.parametrize(("source", "target"), ALL_PAIRS, ids=lambda status: str(status))


def test_the_table_knows_twenty_five_pairs_and_allows_eight():
    assert len(ALL_PAIRS) == 25
    assert {f"{source} → {target}" for source, target in LEGAL_PAIRS} == {
        "PENDING → PENDING",
        "PENDING → RUNNING",
        "PENDING → CANCELLED",
        "RUNNING → RUNNING",
        "RUNNING → PENDING",
        "RUNNING → SUCCESS",
        "RUNNING → FAILED",
        "RUNNING → CANCELLED",
    }


def ask_the_service(task: Task, lease: Lease, target: Status) -> None:
    """The verb that leads to this status. The lease is the last one given: stale where the task is not running."""
    match target:
        case Status.PENDING if task.status == Status.PENDING:
            assert taskqueue.reschedule([task.pk]).done
        case Status.PENDING:
            taskqueue.release_task(lease, "test")
        case Status.RUNNING if task.status == Status.RUNNING:
            assert taskqueue.renew([lease]) == {}
        case Status.RUNNING:
            if not taskqueue.claim("worker"):
                raise IllegalMove("nothing to claim")
        case Status.SUCCESS:
            taskqueue.complete_task(lease, 1)
        case Status.FAILED:
            taskqueue.fail_task(lease, Abort("test"))
        case Status.CANCELLED:
            task.cancel(by="test")


@each_pair
def test_through_the_service(database, source, target):
    task, lease = task_in(source)
    before = everything(task)
    if (source, target) in LEGAL_PAIRS:
        ask_the_service(task, lease, target)
        assert now_of(task).status == target
        return
    with pytest.raises((IllegalMove, LeaseLost)):
        ask_the_service(task, lease, target)
    assert everything(task) == before


def as_faithful_as_can_be(task: Task, lease: Lease, target: Status, using: str) -> dict[str, Any]:
    """The columns of the move as the service would write them: nothing is wrong with it but the pair of statuses."""
    moment = now(using)
    changes: dict[str, Any] = {"status": target.value, "updated_at": moment, "moved_by": lease.signature}
    changes |= {"locked_by": None, "lock_expires_at": None}
    changes["finished_at"] = moment if target in FINISHED else None
    if target is Status.PENDING:
        changes["eta"] = moment
    if target is Status.RUNNING:
        renewing = task.status == Status.RUNNING
        attempts = task.attempts if renewing else task.attempts + 1
        changes |= {"locked_by": lease.locked_by, "lock_expires_at": moment + timedelta(seconds=90)}
        changes |= {"attempts": attempts, "moved_by": f"{lease.locked_by}:{attempts}{'++' if renewing else '+'}"}
    return changes


def by_save(task: Task, changes: dict[str, Any], using: str) -> None:
    for name, value in changes.items():
        setattr(task, name, value)
    task.save()


def by_update(task: Task, changes: dict[str, Any], using: str) -> None:
    Task.objects.filter(pk=task.pk).update(**changes)


def by_sql(task: Task, changes: dict[str, Any], using: str) -> None:
    assignments = ", ".join(f"{name} = %s" for name in changes)
    values = [raw(value, using) for value in changes.values()]
    with connections[using].cursor() as cursor:
        cursor.execute(
            f"UPDATE django_tasks_retry_task SET {assignments} WHERE id = %s", [*values, raw(task.pk, using)]
        )


def raw(value: Any, using: str) -> Any:
    """A value as it is stored."""
    if isinstance(value, dict | list):
        return json.dumps(value)
    if connections[using].vendor == "postgresql" or value is None or isinstance(value, str | int | float):
        return value
    return value.hex if hasattr(value, "hex") else sqlite_text(value)


def write_result_if_missing(task: Task, target: Status, using: str) -> None:
    if target in FINISHED and not TaskResult.objects.filter(task_id=task.pk).exists():
        TaskResult.objects.create(
            task_id=task.pk, status=target.value, attempts=task.attempts, finished_at=now(using)
        )  # fmt: skip


@each_pair
@pytest.mark.parametrize("write", [by_save, by_update, by_sql])
def test_through_the_database(database, source, target, write):
    task, lease = task_in(source)
    changes = as_faithful_as_can_be(task, lease, target, database)
    if (source, target) in LEGAL_PAIRS:
        with transaction.atomic(using=database):
            write_result_if_missing(task, target, database)
            write(task, changes, database)
        assert now_of(task).status == target
        return
    with refused_by_the_database(task, database):
        write_result_if_missing(task, target, database)
        write(task, changes, database)


# Writing the status that an unfinished task already has is no change.
CHANGES = [pair for pair in ALL_PAIRS if pair[0] is not pair[1] or pair[0] in FINISHED]


@pytest.mark.parametrize(("source", "target"), CHANGES, ids=lambda status: str(status))
@pytest.mark.parametrize("write", [by_save, by_update, by_sql])
def test_a_stray_change_of_the_status_alone_is_always_refused(database, source, target, write):
    """Nobody moves a task by naming a status, not even along a legal pair: a move is more than that."""
    task, _ = task_in(source)
    with refused_by_the_database(task, database):
        write(task, {"status": target.value}, database)
