"""Many claimers at the head of one lane: few at a time, and the others come back. Nobody is kept away for good."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from django.db import connections

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import ClaimMemory
from django_tasks_retry.taskqueue.claim.cursor import Contention
from django_tasks_retry.taskqueue.claim.tuning import TUNING
from django_tasks_retry.taskqueue.engines.postgresql import head_of
from django_tasks_retry.taskqueue.engines.ranges import ClaimRange
from django_tasks_retry.taskqueue.lanes import create_limits
from tests import tasks
from tests.steps import Clock, enqueue, stopped

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HELD = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
pytestmark = pytest.mark.parametrize("on", ["postgresql"], indirect=True)


@contextmanager
def taken(using: str, places: int = TUNING.claimers_at_head, priority: int = 0) -> Iterator[None]:
    """Others claim from the head of the queue `default`, so many of them at once."""
    others = connections.create_connection(using)
    head = head_of(ClaimRange("default", priority, NOW, NOW))
    try:
        with others.cursor() as cursor:
            for place in range(1, places + 1):
                cursor.execute("SELECT pg_advisory_lock(%s, %s)", [head, place])
            yield
            cursor.execute("SELECT pg_advisory_unlock_all()")
    finally:
        others.close()


def refreshed(clock: Callable[[], float] = stopped) -> ClaimMemory:
    memory = ClaimMemory(clock=clock)
    taskqueue.is_work_due(memory)
    return memory


def test_while_a_place_is_free_a_claimer_takes_it(database):
    enqueue(tasks.noop)
    with taken(database, TUNING.claimers_at_head - 1):
        assert len(taskqueue.claim("sup/1")) == 1


@pytest.mark.needs("advisory_locks")
def test_a_claimer_without_a_place_takes_nothing_and_knows_when_to_come_back(database):
    task, memory = enqueue(tasks.noop), refreshed()
    with taken(database):
        assert taskqueue.claim("sup/1", memory=memory) == []
        assert memory.is_turned_away
        assert not memory.cursor.came_short
    assert Task.objects.get(pk=task.pk).attempts == 0
    assert [lease.id for lease in taskqueue.claim("sup/1", memory=memory)] == [task.pk]


@pytest.mark.needs("advisory_locks")
def test_a_claimer_without_a_place_takes_nothing_less_urgent_instead(database):
    enqueue(tasks.noop, priority=5)
    enqueue(tasks.noop, priority=0)
    with taken(database, priority=5):
        assert taskqueue.claim("sup/1", limit=2) == []


@pytest.mark.needs("advisory_locks")
def test_a_claim_in_parts_ends_where_it_finds_no_place(database):
    """If something is limited, each priority has claim statements of its own."""
    create_limits({"queue:elsewhere"}, database)
    enqueue(tasks.noop, priority=5)
    enqueue(tasks.noop, priority=0)
    with taken(database, priority=5):
        assert taskqueue.claim("sup/1", limit=2) == []


@pytest.mark.needs("advisory_locks")
def test_places_that_stay_taken_keep_nobody_away_for_good(database):
    enqueue(tasks.noop)
    enqueue(tasks.noop)
    clock = Clock()
    memory = refreshed(clock)
    with taken(database):
        assert taskqueue.claim("sup/1", memory=memory) == []
        clock.advance(2 * TUNING.contention_patience)
        assert taskqueue.claim("sup/1", memory=memory) == []
        assert [len(taskqueue.claim("sup/1", memory=memory)) for _ in range(2)] == [1, 1]


def test_a_place_is_free_again_once_the_claim_is_committed(committed):
    enqueue(tasks.noop)
    assert len(taskqueue.claim("sup/1")) == 1
    with connections[committed].cursor() as cursor:
        cursor.execute(HELD)
        assert cursor.fetchone() == (0,)


def test_who_holds_the_row_of_a_limited_queue_needs_no_place(database):
    create_limits({"queue:default"}, database)
    enqueue(tasks.noop)
    with taken(database):
        assert len(taskqueue.claim("sup/1")) == 1


def test_each_time_it_is_turned_away_a_claimer_waits_longer_but_never_long(on):
    contention = Contention(stopped)
    contention.note_claim(0.01)
    waits = [contention.note_refusal() for _ in range(8)]
    assert 0.06 <= waits[0] < waits[1] < waits[2]
    assert waits[-1] <= TUNING.longest_contention_wait * 1.4
    contention.note_claim(0.01)
    assert contention.note_refusal() < waits[1]


def test_ranges_are_told_apart_by_queue_and_priority(on):
    places = {head_of(ClaimRange(queue, priority, NOW, NOW)) for queue in ("a", "b") for priority in (0, 1)}
    assert len(places) == 4
    assert all(-(2**31) <= place < 2**31 for place in places)
