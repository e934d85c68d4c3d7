"""Expiry and unique modes, with eight connections at once."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest
from django.db import OperationalError, connections

from django_tasks_retry import taskqueue
from django_tasks_retry.errors import AlreadyEnqueued
from django_tasks_retry.models import Task
from django_tasks_retry.rules.status import Status
from tests import tasks
from tests.model.invariants import violations
from tests.races.together import together


@pytest.mark.fault("F290")
def test_each_task_that_expires_is_started_in_time_or_cancelled_and_never_both(committed):
    Task.objects.enqueue_many(
        [{"func": tasks.noop, "args": [n], "expires": timedelta(milliseconds=n + 1)} for n in range(300)]
    )

    def claim_all(worker: str) -> None:
        while Task.objects.using(committed).pending().exists():
            taskqueue.claim(worker, limit=3)

    def sweep_all() -> None:
        while Task.objects.using(committed).pending().exists():
            taskqueue.expire(limit=5)

    together(lambda: claim_all("one"), lambda: claim_all("other"), sweep_all, sweep_all)
    ended = Task.objects.using(committed).cancelled()
    assert all(task.attempts == 0 and task.finished_at >= task.expires_at for task in ended)
    assert all(task.started_at < task.expires_at for task in Task.objects.using(committed).running())
    assert ended.count() + Task.objects.using(committed).filter(status=Status.RUNNING).count() == 300
    assert violations(committed) == []


KEY = "key"


def call(n: int, mode: str) -> Task | None:
    try:
        return Task.objects.enqueue(tasks.noop, args=[n], unique_key=KEY, on_conflict=mode)
    except AlreadyEnqueued:
        return None


def waiting(using: str) -> list[Task]:
    return list(Task.objects.using(using).pending())


def race(mode: str, *others) -> list[Task | None]:
    return together(*[lambda n=n: call(n, mode) for n in range(8)], *others)[:8]


@pytest.mark.fault("F292")
@pytest.mark.parametrize("mode", ["keep", "replace", "again", "raise"])
@pytest.mark.parametrize("runs", [False, True], ids=["nobody runs", "one runs"])
def test_eight_on_one_key_leave_at_most_one_that_waits(committed, mode, runs):
    if runs:
        Task.objects.enqueue(tasks.noop, unique_key=KEY)
        [lease] = taskqueue.claim("worker")
    made = race(mode)
    left = waiting(committed)
    assert len(left) == (0 if runs and mode in {"keep", "raise"} else 1)
    if mode == "replace":
        ended = Task.objects.using(committed).cancelled()
        assert len({task.pk for task in made}) == 8
        assert {task.pk for task in ended} | {left[0].pk} == {task.pk for task in made}
    if mode == "raise":
        assert made.count(None) == (8 if runs else 7)
    if mode == "again":
        assert {task.pk for task in made} == {left[0].pk}
    if runs:
        assert taskqueue.claim("other") == [], "it waits for the one that runs"
        taskqueue.complete_task(lease)
    assert violations(committed) == []


@pytest.mark.fault("F292")
@pytest.mark.parametrize("mode", ["replace", "again"])
def test_nobody_runs_beside_another_of_its_key_while_claimers_race(committed, mode):
    def work(name: str) -> None:
        for _ in range(30):
            for lease in taskqueue.claim(name):
                assert Task.objects.using(committed).running().count() == 1
                taskqueue.complete_task(lease)

    race(mode, *[lambda n=n: work(f"claimer-{n}") for n in range(3)])
    assert len(waiting(committed)) <= 1
    assert violations(committed) == []


class Cut:
    """Makes one statement fail, before it reaches the database or after."""

    def __init__(self, nth: int, when: str) -> None:
        self.nth, self.when, self.seen = nth, when, 0

    def __call__(self, execute, sql, params, many, context):
        if sql.startswith(("BEGIN", "SAVEPOINT", "ROLLBACK", "RELEASE")):
            return execute(sql, params, many, context)
        self.seen += 1
        if self.seen == self.nth and self.when == "before":
            raise OperationalError("cut")
        answer = execute(sql, params, many, context)
        if self.seen == self.nth:
            raise OperationalError("cut")
        return answer


@pytest.mark.fault("F293")
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_replacement_that_is_cut_at_any_statement_leaves_the_old_task_or_the_new_one(committed, when):
    old = Task.objects.enqueue(tasks.noop, args=["old"], unique_key=KEY)
    nth = 1
    while waiting(committed)[0].pk == old.pk:
        with connections[committed].execute_wrapper(Cut(nth, when)), suppress(OperationalError):
            call(nth, "replace")
        [left] = waiting(committed)
        ended = [task.pk for task in Task.objects.using(committed).cancelled()]
        assert ended == ([] if left.pk == old.pk else [old.pk])
        nth += 1
    assert nth > 4, "the lock, the holders, the row, the cancel, the insert"
    assert violations(committed) == []
