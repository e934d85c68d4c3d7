"""Expiry and unique modes, with eight connections at once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

import pytest
from django.db import OperationalError, connections

from django_tasks_retry import taskqueue
from django_tasks_retry.errors import AlreadyEnqueued
from django_tasks_retry.models import Task, TaskEvent
from django_tasks_retry.rules.status import Status
from tests import tasks
from tests.model.invariants import violations
from tests.races.together import beside, together


@pytest.mark.fault("claimed_as_it_expires")
def test_each_task_that_expires_is_started_in_time_or_cancelled_and_never_both(committed):
    Task.objects.enqueue_many(
        [{"func": tasks.noop, "args": [n], "expires": timedelta(milliseconds=2 * n)} for n in range(1, 101)]
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
    assert ended.count() + Task.objects.using(committed).filter(status=Status.RUNNING).count() == 100
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


@pytest.mark.fault("many_calls_settle_one_key")
@pytest.mark.parametrize("mode", ["keep", "replace", "run_again", "raise"])
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
    if mode == "run_again":
        assert {task.pk for task in made} == {left[0].pk}
    if runs:
        assert taskqueue.claim("other") == [], "it waits for the one that runs"
        taskqueue.complete_task(lease)
    assert violations(committed) == []


@pytest.mark.fault("many_calls_settle_one_key")
@pytest.mark.parametrize("mode", ["replace", "run_again"])
def test_nobody_runs_beside_another_of_its_key_while_claimers_race(committed, mode):
    def work(name: str) -> None:
        for _ in range(30):
            for lease in taskqueue.claim(name):
                assert Task.objects.using(committed).running().count() == 1
                taskqueue.complete_task(lease)

    race(mode, *[lambda n=n: work(f"claimer-{n}") for n in range(3)])
    assert len(waiting(committed)) <= 1
    assert violations(committed) == []


@pytest.mark.fault("many_calls_settle_one_key")
@pytest.mark.parametrize("mode", ["replace", "run_again"])
@pytest.mark.parametrize("on", ["postgresql"], indirect=True)
def test_a_call_waits_for_another_of_its_key_that_has_yet_to_commit(committed, mode):
    """Else it would see neither the one that has just finished nor the one that was written behind it."""
    Task.objects.enqueue(tasks.noop, unique_key=KEY)
    [lease] = taskqueue.claim("worker")

    def complete_and_call() -> Task | None:
        taskqueue.complete_task(lease)
        return call(2, mode)

    _, second, waited = beside(committed, lambda: call(1, mode), complete_and_call)
    assert waited
    assert [task.pk for task in waiting(committed)] == [second.pk]
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


def cut_at_each_statement(using: str, when: str, action: Callable[[], object]) -> int:
    """Act until an action is not cut off; each that is leaves everything as it was. Tells how many statements it is."""
    before, nth = everything(using), 0
    while everything(using) == before:
        nth += 1
        with connections[using].execute_wrapper(Cut(nth, when)), suppress(OperationalError):
            action()
    assert violations(using) == []
    return nth - 1 if when == "before" else nth


def everything(using: str) -> list[object]:
    return [list(model.objects.using(using).order_by("pk").values()) for model in (Task, TaskEvent)]


@pytest.mark.fault("unique_call_or_sweep_cut")
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_replacement_that_is_cut_at_any_statement_leaves_the_old_task_or_the_new_one(committed, when):
    old = Task.objects.enqueue(tasks.noop, args=["old"], unique_key=KEY)
    steps = cut_at_each_statement(committed, when, lambda: call(1, "replace"))
    assert steps >= 4, "the holders, the row, the cancel, the insert"
    [left], [ended] = waiting(committed), Task.objects.using(committed).cancelled()
    assert (left.args, ended.pk) == ([1], old.pk)


@pytest.mark.fault("unique_call_or_sweep_cut")
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_run_once_more_that_is_cut_at_any_statement_leaves_none_or_one(committed, when):
    running = Task.objects.enqueue(tasks.noop, unique_key=KEY)
    taskqueue.claim("worker")
    assert cut_at_each_statement(committed, when, lambda: call(1, "run_again")) >= 2, "the holders, the insert"
    [left] = waiting(committed)
    assert left.follows_id == running.pk


@pytest.mark.fault("unique_call_or_sweep_cut")
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_debounce_that_is_cut_at_any_statement_leaves_the_old_time_or_the_new_one_and_its_event(
    committed, when, travel
):
    def debounce() -> Task:
        return Task.objects.enqueue(tasks.noop, unique_key=KEY, debounce=60)

    first = debounce()
    travel(30)
    assert cut_at_each_statement(committed, when, debounce) >= 4, "the holders, the row, the update, the event"
    [left] = waiting(committed)
    [event] = TaskEvent.objects.using(committed).filter(task=first, data__reason="debounced")
    assert left.eta >= first.eta + timedelta(seconds=30)
    assert event.data["eta"] == left.eta.isoformat()


@pytest.mark.fault("unique_call_or_sweep_cut")
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_sweep_that_is_cut_at_any_statement_has_cancelled_all_of_its_batch_or_none(committed, when, travel):
    Task.objects.enqueue_many([{"func": tasks.noop, "args": [n], "expires": timedelta(seconds=1)} for n in range(3)])
    travel(2)
    assert cut_at_each_statement(committed, when, taskqueue.expire) >= 1
    assert waiting(committed) == []
    assert TaskEvent.objects.using(committed).filter(kind="task.cancelled").count() == 3
