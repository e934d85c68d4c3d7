"""At each statement of step, gather, wake and signal something goes wrong: nothing is lost, stuck or done twice.

An ordinary run disturbs a few of the statements; `FAULTS=all pytest tests/workflows/test_faults.py` every one of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import DatabaseError, OperationalError, connections

from django_tasks_retry import signal, taskqueue
from django_tasks_retry.errors import LeaseLost
from django_tasks_retry.models import Signal, Step, Task
from django_tasks_retry.taskqueue import Sweep
from django_tasks_retry.taskqueue.retention.prune import delete_tasks
from django_tasks_retry.taskqueue.workflows.steps import StepKind, StepStore
from django_tasks_retry.testing import Tasks
from django_tasks_retry.testing.crash import Killed
from tests.model.invariants import violations
from tests.steps import begin, now_of
from tests.workflows import tasks

STRIDE = 1 if os.environ.get("FAULTS") == "all" else 37
TRANSACTION = ("BEGIN", "SAVEPOINT", "RELEASE", "ROLLBACK")


class Disturbed:
    """Lets statements pass up to one. That fails before it reaches the database, or after; or the process dies."""

    def __init__(self, nth: int, when: str) -> None:
        self.nth, self.when, self.seen = nth, when, 0
        self.is_dead = False

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if self.is_dead:
            raise Killed
        if sql.startswith(TRANSACTION):
            return execute(sql, params, many, context)
        self.seen += 1
        if self.seen != self.nth:
            return execute(sql, params, many, context)
        if self.when != "before":
            execute(sql, params, many, context)
        self.is_dead = self.when == "killed"
        raise Killed if self.is_dead else OperationalError("cut")


@contextmanager
def disturbed(using: str, nth: int, when: str) -> Iterator[Disturbed]:
    with connections[using].execute_wrapper(wrapper := Disturbed(nth, when)), suppress(Killed, DatabaseError):
        yield wrapper


def live(kit: Tasks) -> None:
    """Everything of a workflow, once: steps, members, waking, a signal."""
    kit.run_due()
    signal("go", "went")
    kit.run_due()


def go_on(kit: Tasks, task: Task) -> None:
    """Let other workers do their part afterwards: leases run out, waiting tasks are swept, what is due is run."""
    for _ in range(4):
        if now_of(task).is_finished:
            return
        kit.advance(seconds=61)
        taskqueue.recover()
        signal("go", "went")
        Sweep().everything()
        kit.run_until_idle()


@pytest.fixture
def kit(committed: str) -> Iterator[Tasks]:
    kit = Tasks()
    yield kit
    kit.close()


def clean() -> None:
    delete_tasks(list(Task.objects.values_list("pk", flat=True)), Task.objects.db)
    Signal.objects.all().delete()
    Group.objects.all().delete()


@pytest.mark.fault("workflow_cut_at_any_statement")
@pytest.mark.parametrize("when", ["before", "after", "killed"])
def test_a_workflow_survives_whatever_happens_at_any_of_its_statements(kit, when):
    nth = {"before": 3, "after": 5, "killed": 7}[when] if STRIDE > 1 else 1
    while True:
        task = Task.objects.enqueue(tasks.everything, max_attempts=9)
        with disturbed(kit.using, nth, when) as wrapper:
            live(kit)
        go_on(kit, task)
        assert now_of(task).status == "SUCCESS", (nth, now_of(task).last_error)
        assert now_of(task).outcome.result == [[2, 4], "went"], nth
        assert Group.objects.count() == 1, (nth, "the atomic step is done once")
        assert Task.objects.exclude(batch=None).count() == 2, (nth, "the members are enqueued once")
        assert violations(kit.using) == [], nth
        if wrapper.seen < nth:
            break
        clean()
        nth += STRIDE
    assert nth > 40, "a workflow has many statements"


@pytest.mark.fault("step_recorded_without_a_lease")
def test_a_worker_that_wakes_up_late_remembers_nothing(database, travel):
    task, lease = begin()
    travel(61)
    taskqueue.recover()
    [other] = taskqueue.claim("another")
    StepStore(other).save("x", StepKind.STEP, "theirs")
    with pytest.raises(LeaseLost):
        StepStore(lease).save("y", StepKind.STEP, "ours")
    assert list(Step.objects.filter(task_id=task.pk).values_list("name", "result")) == [("x", "theirs")]


@pytest.mark.fault("death_between_last_member_and_wake")
def test_who_is_not_woken_is_found_by_the_sweep(kit, monkeypatch):
    def dies(*_: Any) -> None:
        raise OperationalError("the connection is gone")

    task = Task.objects.enqueue(tasks.fan_out, [[1]])
    with monkeypatch.context() as patched:
        patched.setattr("django_tasks_retry.taskqueue.workflows.wake.wake", dies)
        patched.setattr("django_tasks_retry.taskqueue.Sweep.everything", lambda self: [])
        kit.run_due()
    assert now_of(task).waits_for, "its last member has ended, and nobody told it"
    assert Sweep().everything() == [task.pk]
