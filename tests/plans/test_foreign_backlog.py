"""What else stands in a lane is read once in a while, not at every claim: functions not claimed for, other backends."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest
from django.utils import timezone

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Task
from tests import tasks
from tests.plans.crowds import USING, empty, execute, load
from tests.plans.explain import explained
from tests.router import CurrentDatabase

BACKLOG = 5_000
ADD = "tests.tasks.add"


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


def claim(lanes: taskqueue.Lanes, limit: int = 100) -> list[taskqueue.Lease]:
    return taskqueue.claim("worker/1", limit=limit, lanes=lanes)


def used_to(lanes: taskqueue.Lanes) -> taskqueue.Lanes:
    """It has read the lanes from their beginning twice, which took long, and rests from that until told otherwise."""
    for _ in range(2):
        assert claim(lanes) == []
        lanes.looked_at = -math.inf
    assert lanes.keep_floors_until > lanes.read_seconds > 0
    lanes.keep_floors_until = math.inf
    return lanes


def rest_is_over(lanes: taskqueue.Lanes) -> None:
    lanes.keep_floors_until = lanes.looked_at = -math.inf


on_postgresql = pytest.mark.django_db(databases=["default", USING])


@pytest.mark.fault("F107")
@on_postgresql
@pytest.mark.parametrize("backlog", ["another function", "another backend"], indirect=True)
def test_claims_read_what_is_not_for_them_no_more_than_once_in_a_while(backlog):
    lanes = used_to(taskqueue.Lanes(paths=[ADD], slow=0.0))
    for _ in range(3):
        arrived = taskqueue.enqueue(taskqueue.Request(tasks.add, [1, 2]))
        with explained(USING) as plans:
            assert [lease.id for lease in claim(lanes)] == [arrived.pk]
            assert claim(lanes) == []
            lanes.looked_at = -math.inf
            assert claim(lanes) == []
        assert sum(plan.rows_read() for plan in plans) <= 20


@pytest.mark.fault("F107")
@on_postgresql
@pytest.mark.parametrize("backlog", ["another function"], indirect=True)
def test_a_full_claim_keeps_its_place_behind_the_backlog_through_the_next_looks(backlog):
    lanes = taskqueue.Lanes(paths=[ADD], slow=0.0)
    taskqueue.enqueue_many(taskqueue.Request(tasks.add, [n, n]) for n in range(40))
    for _ in range(2):
        assert len(claim(lanes, limit=10)) == 10
        lanes.looked_at = -math.inf
    lanes.keep_floors_until = math.inf
    with explained(USING) as plans:
        assert len(claim(lanes, limit=10)) == 10
    assert sum(plan.rows_read() for plan in plans) <= 40


@pytest.mark.fault("F107")
def test_what_sorts_below_is_found_when_the_rest_is_over(database):
    taskqueue.enqueue_many(taskqueue.Request(tasks.noop) for _ in range(20))
    lanes = used_to(taskqueue.Lanes(paths=[ADD], slow=0.0))
    earlier = Task.objects.enqueue(tasks.add, [1, 2], eta=timezone.now() - timedelta(hours=1))
    arrived = Task.objects.enqueue(tasks.add, [3, 4])
    assert [lease.id for lease in claim(lanes)] == [arrived.pk]
    assert claim(lanes) == []
    rest_is_over(lanes)
    assert [lease.id for lease in claim(lanes)] == [earlier.pk]


def test_where_reading_is_quick_nothing_waits(database):
    lanes = taskqueue.Lanes(slow=math.inf)
    Task.objects.enqueue(tasks.noop)
    for _ in range(3):
        assert len(claim(lanes)) == 1
        Task.objects.enqueue(tasks.noop, eta=timezone.now() - timedelta(hours=1))
