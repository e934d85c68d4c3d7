"""In no window of the given length do more tasks of a lane start than its rate says."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connections

from django_tasks_retry import clock, taskqueue
from django_tasks_retry.taskqueue import ClaimMemory, Released
from tests import tasks
from tests.steps import Clock

pytestmark = pytest.mark.usefixtures("database")


def test_so_many_start_and_the_next_when_the_window_has_passed(claim, enqueue, database):
    enqueue(tasks.call_api, 12, "a")
    first = claim(limit=20)
    assert len(first) == 5
    clock.shift(timedelta(seconds=30), database)
    assert claim(limit=20) == []
    clock.shift(timedelta(seconds=62), database)
    assert len(claim(limit=20)) == 5


def test_a_start_that_was_given_back_counts(claim, enqueue):
    enqueue(tasks.call_api, 5, "a")
    leases = claim()
    taskqueue.finish([Released(lease, "shut down") for lease in leases])
    assert claim() == []


def test_a_claimer_knows_when_the_window_opens(enqueue):
    enqueue(tasks.call_api, 6, "a")
    seconds = Clock()
    memory = ClaimMemory(clock=seconds)
    assert len(taskqueue.claim("worker/1", limit=10, memory=memory)) == 5
    seconds.advance(0.3)
    assert taskqueue.claim("worker/1", limit=10, memory=memory) == []
    assert memory.closed.is_closed("api-a")
    assert memory.ahead == 1.0


@pytest.mark.parametrize("on", ["postgresql"], indirect=True)
def test_a_lane_is_closed_as_of_its_lock_however_long_the_claim_took(enqueue, database):
    enqueue(tasks.call_api, 6, "a")
    seconds = Clock()
    memory = ClaimMemory(clock=seconds)

    def slowly(execute, sql, params, many, context):
        seconds.advance(2 if "Claim keyed" in sql else 0)
        return execute(sql, params, many, context)

    with connections[database].execute_wrapper(slowly):
        assert len(taskqueue.claim("worker/1", limit=10, memory=memory)) == 5
    assert memory.closed.opens_at == memory.tuning.longest_rate_wait


def test_starts_spread_over_time_never_exceed_the_rate_in_any_window(claim, enqueue, database):
    enqueue(tasks.call_api, 30, "a")
    started = []
    for second in range(0, 150, 7):
        clock.shift(timedelta(seconds=second), database)
        started += [lease.last_attempt_at for lease in claim(limit=1 + second % 3)]
    window = timedelta(seconds=60)
    assert max(sum(begin <= each < begin + window for each in started) for begin in started) == 5
