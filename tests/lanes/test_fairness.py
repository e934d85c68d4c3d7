"""Lanes of one priority share workers by weight; nobody waits behind another's backlog; a lone lane gets all."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from django_tasks_retry import clock, taskqueue
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import Completed, Lanes, Request
from tests import tasks
from tests.lanes.test_limits import with_lanes

pytestmark = pytest.mark.usefixtures("database")


def fill(**counts: int) -> None:
    taskqueue.enqueue_many(Request(tasks.noop, lane=name) for name, count in counts.items() for _ in range(count))


def drain(lanes: Lanes, limit: int, claims: int) -> list[str]:
    """The lanes of what was claimed, in that order."""
    taken = []
    for _ in range(claims):
        leases = taskqueue.claim("worker/1", limit=limit, lanes=lanes)
        taskqueue.finish([Completed(lease) for lease in leases])
        taken += [lease.lane for lease in leases]
    return taken


def test_one_task_does_not_wait_behind_a_backlog_of_another_lane():
    fill(a=200, b=1, c=1)
    assert {"b", "c"} <= set(drain(Lanes(), limit=4, claims=2))


def test_ten_lone_tasks_are_picked_up_in_a_few_claims_beside_a_crowd():
    others = set("bcdefghijk")
    lanes = Lanes()
    fill(a=1000)
    drain(lanes, limit=4, claims=2)
    fill(**dict.fromkeys(others, 1))
    lanes.looked_at = float("-inf")
    assert others <= set(drain(lanes, limit=4, claims=4))


def test_a_newcomer_is_seen_by_the_next_look_though_the_cursor_is_elsewhere(monkeypatch):
    monkeypatch.setattr("django_tasks_retry.taskqueue.consumer.claim.HOPS", 4)
    monkeypatch.setattr("django_tasks_retry.taskqueue.consumer.claim.MOST_HOPS", 4)
    fill(**{f"t{n:02}": 20 for n in range(60)})
    lanes = Lanes()
    drain(lanes, limit=2, claims=2)
    fill(newcomer=1)
    lanes.looked_at = float("-inf")
    assert "newcomer" in drain(lanes, limit=8, claims=8), "one round of all lanes"


def test_who_took_all_that_a_slow_look_found_looks_again_at_once(monkeypatch):
    monkeypatch.setattr("django_tasks_retry.taskqueue.consumer.claim.HOPS", 4)
    monkeypatch.setattr("django_tasks_retry.taskqueue.consumer.claim.MOST_HOPS", 4)
    fill(**{f"t{n:02}": 1 for n in range(40)})
    lanes = Lanes(slow=-1.0)  # every look is slow, and earns a rest
    assert len(drain(lanes, limit=4, claims=10)) == 40


def test_a_lone_lane_gets_everything():
    fill(a=30)
    assert len(drain(Lanes(), limit=30, claims=1)) == 30


@pytest.mark.parametrize("limit", [1, 8])
def test_lanes_share_by_weight(settings, limit):
    settings.TASKS = with_lanes(settings.TASKS, {"a": {"weight": 3}})
    fill(a=120, b=120)
    taken = Counter(drain(Lanes(slow=float("inf")), limit=limit, claims=80 // limit))
    assert abs(taken["a"] - 3 * taken["b"]) <= 8


@pytest.mark.parametrize("limit", [1, 5, 8])
def test_several_claimers_share_by_weight_within_ten_percent(settings, limit):
    settings.TASKS = with_lanes(settings.TASKS, {"a": {"weight": 3}})
    fill(a=500, b=500)
    claimers, taken = [Lanes(slow=float("inf")) for _ in range(3)], Counter[str]()
    while taken.total() < 400:
        for each in claimers:
            taken.update(drain(each, limit=limit, claims=1))
    assert 2.7 <= taken["a"] / taken["b"] <= 3.3


def test_every_lane_has_its_turn_though_a_look_sees_only_some(monkeypatch):
    monkeypatch.setattr("django_tasks_retry.taskqueue.consumer.claim.HOPS", 4)
    monkeypatch.setattr("django_tasks_retry.taskqueue.consumer.claim.MOST_HOPS", 4)
    fill(**{f"t{n:02}": 5 for n in range(20)})
    lanes, taken = Lanes(), []
    for _ in range(20):
        lanes.looked_at = float("-inf")
        taken += drain(lanes, limit=2, claims=1)
    assert len(set(taken)) == 20


def test_a_higher_priority_goes_first_with_or_without_a_lane():
    fill(a=3)
    Task.objects.enqueue(tasks.noop, priority=5)
    Task.objects.enqueue(tasks.noop, priority=9, lane="b")
    leases = taskqueue.claim("worker/1", limit=2)
    assert [(lease.priority, lease.lane) for lease in leases] == [(9, "b"), (5, "")]


def test_with_patience_a_low_priority_is_not_starved_for_ever(settings, database):
    settings.TASKS = with_lanes(settings.TASKS, {}, PATIENCE=10)
    low = Task.objects.enqueue(tasks.noop, priority=-1)
    clock.shift(timedelta(seconds=25), database)
    Task.objects.enqueue(tasks.noop)
    assert [lease.id for lease in taskqueue.claim("worker/1", limit=1)] == [low.pk]
