"""Lanes of one priority share workers by weight; nobody waits behind another's backlog; a lone lane gets all."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from django_tasks_retry import clock, taskqueue
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import ClaimMemory, Completed, EnqueueOptions
from django_tasks_retry.taskqueue.claim.tuning import TUNING
from tests import tasks
from tests.lanes.test_limits import with_lanes
from tests.steps import Clock, stopped

pytestmark = pytest.mark.usefixtures("database")
FEW_HOPS = replace(TUNING, fewest_hops=4, most_hops=4)
LONG_REST = 0.001
"""The share of time for which a rest after a slow refresh outlasts the test."""


def slowly() -> Clock:
    """A clock by which each refresh takes long enough to earn a rest."""
    return Clock(step=0.02)


def fill(**counts: int) -> None:
    taskqueue.enqueue_many(
        EnqueueOptions(tasks.noop, lane=name) for name, count in counts.items() for _ in range(count)
    )


def drain(memory: ClaimMemory, limit: int, claims: int) -> list[str]:
    """The lanes of what was claimed, in that order."""
    taken = []
    for _ in range(claims):
        leases = taskqueue.claim("worker/1", limit=limit, memory=memory)
        taskqueue.finish([Completed(lease) for lease in leases])
        taken += [lease.lane for lease in leases]
    return taken


def test_one_task_does_not_wait_behind_a_backlog_of_another_lane():
    fill(a=200, b=1, c=1)
    assert {"b", "c"} <= set(drain(ClaimMemory(clock=stopped), limit=4, claims=2))


def test_ten_lone_tasks_are_picked_up_in_a_few_claims_beside_a_crowd():
    others = set("bcdefghijk")
    seconds = Clock()
    memory = ClaimMemory(clock=seconds)
    fill(a=1000)
    drain(memory, limit=4, claims=2)
    fill(**dict.fromkeys(others, 1))
    seconds.advance()
    assert others <= set(drain(memory, limit=4, claims=4))


def test_a_newcomer_is_seen_by_the_next_look_though_the_cursor_is_elsewhere():
    fill(**{f"t{n:02}": 20 for n in range(60)})
    seconds = Clock()
    memory = ClaimMemory(clock=seconds, tuning=FEW_HOPS)
    drain(memory, limit=2, claims=2)
    fill(newcomer=1)
    seconds.advance()
    assert "newcomer" in drain(memory, limit=8, claims=8), "one round of all lanes"


def test_who_took_all_that_a_slow_look_found_looks_again_at_once():
    fill(**{f"t{n:02}": 1 for n in range(40)})
    memory = ClaimMemory(clock=slowly(), tuning=replace(FEW_HOPS, share_of_time=LONG_REST))
    assert len(drain(memory, limit=4, claims=10)) == 40


def test_who_worked_off_a_page_turns_it_though_looks_are_slow():
    taskqueue.enqueue_many(EnqueueOptions(tasks.noop, priority=n) for n in range(20))
    memory = ClaimMemory(clock=slowly(), tuning=replace(TUNING, ranges_a_page=4, share_of_time=LONG_REST))
    assert len(drain(memory, limit=4, claims=5)) == 20


def test_a_lone_lane_gets_everything():
    fill(a=30)
    assert len(drain(ClaimMemory(clock=stopped), limit=30, claims=1)) == 30


@pytest.mark.parametrize("limit", [1, 8])
def test_lanes_share_by_weight(settings, limit):
    settings.TASKS = with_lanes(settings.TASKS, {"a": {"weight": 3}})
    fill(a=120, b=120)
    taken = Counter(drain(ClaimMemory(clock=stopped), limit=limit, claims=80 // limit))
    assert abs(taken["a"] - 3 * taken["b"]) <= 8


@pytest.mark.parametrize("limit", [1, 5, 8])
def test_several_claimers_share_by_weight_within_ten_percent(settings, limit):
    settings.TASKS = with_lanes(settings.TASKS, {"a": {"weight": 3}})
    fill(a=500, b=500)
    claimers, taken = [ClaimMemory(clock=stopped) for _ in range(3)], Counter[str]()
    while taken.total() < 400:
        for each in claimers:
            taken.update(drain(each, limit=limit, claims=1))
    assert 2.7 <= taken["a"] / taken["b"] <= 3.3


def test_every_lane_has_its_turn_though_a_look_sees_only_some():
    fill(**{f"t{n:02}": 5 for n in range(20)})
    seconds, taken = Clock(), []
    memory = ClaimMemory(clock=seconds, tuning=FEW_HOPS)
    for _ in range(20):
        seconds.advance()
        taken += drain(memory, limit=2, claims=1)
    assert len(set(taken)) == 20


def test_a_higher_priority_goes_first_with_or_without_a_lane():
    fill(a=3)
    Task.objects.enqueue(tasks.noop, priority=5)
    Task.objects.enqueue(tasks.noop, priority=9, lane="b")
    leases = taskqueue.claim("worker/1", limit=2)
    assert [(lease.priority, lease.lane) for lease in leases] == [(9, "b"), (5, "")]


def test_with_aging_a_low_priority_is_not_starved_for_ever(settings, database):
    settings.TASKS = with_lanes(settings.TASKS, {}, PRIORITY_AGING=10)
    low = Task.objects.enqueue(tasks.noop, priority=-1)
    clock.shift(timedelta(seconds=25), database)
    Task.objects.enqueue(tasks.noop)
    assert [lease.id for lease in taskqueue.claim("worker/1", limit=1)] == [low.pk]
