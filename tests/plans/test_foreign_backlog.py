"""Tasks of functions not claimed for, or of other backends, are read once in a while, and not at every claim."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue.engines.postgresql import PostgreSQL
from django_tasks_retry.taskqueue.engines.sqlite import SQLite
from tests import tasks
from tests.plans.crowds import USING, empty, execute, load
from tests.plans.explain import explained
from tests.router import CurrentDatabase
from tests.steps import Clock, stopped

BACKLOG = 5_000
ADD = "tests.tasks.add"
REFRESH = 1.1
"""Seconds after which the next claim refreshes its ranges."""


@pytest.fixture
def backlog(db: None, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Tasks that are due, and not for the claimer of these tests."""
    monkeypatch.setattr(CurrentDatabase, "current", USING)
    empty()
    load("PENDING", count=BACKLOG)
    if request.param == "another backend":
        execute("ALTER TABLE django_tasks_retry_task DISABLE TRIGGER USER")
        execute(f"UPDATE django_tasks_retry_task SET backend = 'other', func_path = '{ADD}'")
        execute("ALTER TABLE django_tasks_retry_task ENABLE TRIGGER USER")


@pytest.fixture
def slow_claims(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock by which each claim takes half a second, and nothing else takes any time."""
    clock = Clock()

    def slow(claim: Any) -> Any:
        def claim_slowly(*args: Any) -> Any:
            clock.advance(0.5)
            return claim(*args)

        return claim_slowly

    for engine in (PostgreSQL, SQLite):
        monkeypatch.setattr(engine, "claim", slow(engine.claim))
    return clock


def claim(memory: taskqueue.ClaimMemory, limit: int = 100) -> list[taskqueue.Lease]:
    return taskqueue.claim("worker/1", limit=limit, memory=memory)


def used_to_slow_claims(clock: Clock) -> taskqueue.ClaimMemory:
    """It has read the ranges from their beginning twice, which took long, and keeps its floors for ten seconds."""
    memory = taskqueue.ClaimMemory(paths=[ADD], clock=clock)
    for _ in range(2):
        clock.advance(REFRESH)
        assert claim(memory) == []
    return memory


on_postgresql = pytest.mark.django_db(databases=["default", USING])


@pytest.mark.fault("backlog_of_other_kinds")
@on_postgresql
@pytest.mark.parametrize("backlog", ["another function", "another backend"], indirect=True)
def test_claims_read_what_is_not_for_them_no_more_than_once_in_a_while(backlog, slow_claims):
    memory = used_to_slow_claims(slow_claims)
    for _ in range(3):
        arrived = taskqueue.enqueue(taskqueue.EnqueueOptions(tasks.add, [1, 2]))
        with explained(USING) as plans:
            assert [lease.id for lease in claim(memory)] == [arrived.pk]
            assert claim(memory) == []
            slow_claims.advance(REFRESH)
            assert claim(memory) == []
        assert sum(plan.rows_read() for plan in plans) <= 20


@pytest.mark.fault("backlog_of_other_kinds")
@on_postgresql
@pytest.mark.parametrize("backlog", ["another function"], indirect=True)
def test_a_full_claim_keeps_its_place_behind_the_backlog_through_the_next_looks(backlog, slow_claims):
    memory = taskqueue.ClaimMemory(paths=[ADD], clock=slow_claims)
    taskqueue.enqueue_many(taskqueue.EnqueueOptions(tasks.add, [n, n]) for n in range(40))
    for _ in range(2):
        assert len(claim(memory, limit=10)) == 10
        slow_claims.advance(REFRESH)
    with explained(USING) as plans:
        assert len(claim(memory, limit=10)) == 10
    assert sum(plan.rows_read() for plan in plans) <= 40


@pytest.mark.fault("backlog_of_other_kinds")
def test_what_sorts_below_is_found_when_the_rest_is_over(database, slow_claims):
    taskqueue.enqueue_many(taskqueue.EnqueueOptions(tasks.noop) for _ in range(20))
    memory = used_to_slow_claims(slow_claims)
    earlier = Task.objects.enqueue(tasks.add, [1, 2], eta=timezone.now() - timedelta(hours=1))
    arrived = Task.objects.enqueue(tasks.add, [3, 4])
    assert [lease.id for lease in claim(memory)] == [arrived.pk]
    assert claim(memory) == []
    slow_claims.advance()
    assert [lease.id for lease in claim(memory)] == [earlier.pk]


def test_where_reading_is_quick_nothing_waits(database):
    memory = taskqueue.ClaimMemory(clock=stopped)
    Task.objects.enqueue(tasks.noop)
    for _ in range(3):
        assert len(claim(memory)) == 1
        Task.objects.enqueue(tasks.noop, eta=timezone.now() - timedelta(hours=1))
