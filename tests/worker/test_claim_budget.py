"""How many tasks a child may claim: by free slots, ahead of short functions, one at a time after a crash."""

from __future__ import annotations

from collections.abc import Sequence
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest

from django_tasks_retry.worker.child import child as child_module
from django_tasks_retry.worker.child.attempt import Attempt
from django_tasks_retry.worker.child.child import LONGEST_LINGER
from django_tasks_retry.worker.child.child import Child as WorkerChild
from django_tasks_retry.worker.child.prefetch import (
    CAREFUL_SECONDS,
    CAREFUL_TASKS,
    LONGEST_LOOP_REST,
    LOOP_REST,
    MOST_AHEAD,
    ClaimBudget,
    Prefetch,
)
from django_tasks_retry.worker.options import WorkerOptions
from django_tasks_retry.worker.shared.inflight import InFlightTable, Room

LEASE: Any = SimpleNamespace(func_path="")
OPTIONS = WorkerOptions(threads=4, async_slots=10)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def running(functions: int, coroutines: int = 0) -> set[Any]:
    """Attempts; a namespace has no hash."""
    return {Running(is_async=n >= functions) for n in range(functions + coroutines)}


class Running(SimpleNamespace):
    __hash__ = object.__hash__


def limits(budget: ClaimBudget, *, ahead: float = 1.0) -> tuple[int, int]:
    return budget.limit(coroutines=False, ahead=ahead), budget.limit(coroutines=True, ahead=ahead)


def test_each_kind_has_its_own_slots(clock):
    assert limits(ClaimBudget(OPTIONS, running(1, 3), clock=clock)) == (3, 7)
    assert limits(ClaimBudget(OPTIONS, running(4, 10), clock=clock)) == (0, 0)


def test_short_functions_are_claimed_ahead_unless_some_must_start_at_once(clock):
    budget = ClaimBudget(OPTIONS, running(1), clock=clock)
    budget.prefetch.learn(0.01, clock.now)
    assert limits(budget) == (3 + 10, 10)
    assert limits(budget, ahead=0.0) == (3, 10)
    assert budget.free_slots(coroutines=False) == 3


def test_after_a_crash_it_is_one_task_at_a_time_for_a_few_tasks_or_a_moment(clock):
    attempts = running(0)
    budget = ClaimBudget(OPTIONS, attempts, careful=True, clock=clock)
    assert limits(budget) == (1, 1)
    attempts |= running(1)
    assert limits(budget) == (0, 0)
    clock.now += CAREFUL_SECONDS
    assert limits(budget) == (3, 10)
    clock.now = 1000.0
    for _ in range(CAREFUL_TASKS):
        budget.note_answered()
    assert limits(budget) == (3, 10)


def test_no_more_are_claimed_than_the_worker_is_told_to_run(clock):
    budget = ClaimBudget(WorkerOptions(threads=4, max_tasks=5), running(0), clock=clock)
    budget.note_claimed(3)
    assert limits(budget) == (2, 2)


def test_a_loop_that_was_blocked_claims_no_coroutines_for_longer_and_longer(clock):
    budget = ClaimBudget(OPTIONS, running(0), clock=clock)
    rests = []
    for _ in range(6):
        budget.rest_loop()
        assert limits(budget) == (4, 0)
        rests.append(budget.loop_rests_until - clock.now)
        clock.now = budget.loop_rests_until
        assert limits(budget) == (4, 10)
    assert rests == [LOOP_REST * 2**n for n in range(5)] + [LONGEST_LOOP_REST]


# Claiming ahead


def learnt(slots: int, run_time: float, at_once: int, seconds: float = 2.0) -> Prefetch:
    """Return what functions of that length teach, so many of which always run side by side."""
    prefetch, now = Prefetch(slots), 0.0
    while now <= seconds:
        prefetch.learn(run_time, now)
        now += run_time / at_once
    return prefetch


@pytest.mark.parametrize(
    ("slots", "run_time", "at_once", "ahead"),
    [(1, 0.02, 1, 5), (16, 0.02, 16, 80), (16, 0.001, 1, 100), (16, 0.08, 16, 20), (16, 0.0001, 16, MOST_AHEAD)],
    ids=["one thread", "threads that wait", "threads that compute", "preempted", "shortest"],
)
def test_a_tenth_of_a_second_of_work_is_claimed_ahead(slots, run_time, at_once, ahead):
    assert learnt(slots, run_time, at_once).ahead(2.0) == pytest.approx(ahead, rel=0.08, abs=1)


def test_a_lone_function_does_not_tell_that_others_would_run_beside_it():
    prefetch = Prefetch(slots=16)
    for second in range(10):
        prefetch.learn(0.005, now=float(second))
    assert prefetch.ahead(10.0) == 20


def test_idle_slots_do_not_make_the_next_claim_smaller():
    """Functions that wait, of which few run side by side only because claims are too small for the slots."""
    prefetch, starved = learnt(32, 0.01, 8), 80
    assert prefetch.ahead(2.0) == pytest.approx(starved, rel=0.08)
    for _ in range(3):
        prefetch.note_dry()
    assert prefetch.ahead(2.0) == pytest.approx(starved * 4, rel=0.08)
    prefetch.learn(0.01, now=3.0)
    assert prefetch.ahead(3.0) == pytest.approx(starved * 4, rel=0.08)
    prefetch.learn(0.01, now=4.0)
    assert prefetch.ahead(4.0) == 10


@pytest.mark.parametrize(
    ("waiting", "seconds"), [(0, 0.0), (8, 0.005), (80, LONGEST_LINGER)], ids=["none", "few", "many"]
)
def test_ends_gather_for_half_the_time_that_the_line_lasts(waiting, seconds):
    assert WorkerChild.linger_time(child_with(waiting)) == pytest.approx(seconds, rel=0.08)


@pytest.mark.parametrize("limit", [{"has_lanes": True}, {"full": ["queue:mail"]}], ids=["a lane", "a full queue"])
def test_ends_do_not_gather_while_others_may_wait_for_the_permit_of_one(limit):
    assert WorkerChild.linger_time(child_with(80, **limit)) == 0.0


@pytest.mark.parametrize(("waiting", "reports"), [(80, [2]), (0, [1, 1])], ids=["a line", "no line"])
def test_ends_that_come_while_others_wait_share_a_report(monkeypatch, waiting, reports):
    child, lengths = child_with(waiting), list[int]()
    first, second = (Attempt(LEASE, 0.0) for _ in range(2))
    child.inbox.put(first)
    monkeypatch.setattr(child_module, "sleep", lambda _: child.inbox.put(second))
    child.take_ended = lambda ended: lengths.append(len(ended))
    WorkerChild.collect(child)
    if len(reports) > 1:
        child.inbox.put(second)
        WorkerChild.collect(child)
    assert lengths == reports


def child_with(waiting: int, *, has_lanes: bool = False, full: Sequence[str] = ()) -> Any:
    """Stand in for a child of 16 threads, in whose line so many attempts of 20 ms wait."""
    memory = SimpleNamespace(
        cursor=SimpleNamespace(has_lanes=has_lanes), closed=SimpleNamespace(until=dict.fromkeys(full, 1.0))
    )
    intake = SimpleNamespace(
        functions=SimpleNamespace(memory=memory),
        budget=SimpleNamespace(prefetch=learnt(16, 0.02, 16)),
        room=Room.ALL,
    )
    child: Any = SimpleNamespace(intake=intake, inbox=SimpleQueue(), is_stopping=False, wait_timeout=lambda: 0.0)
    child.threads = SimpleNamespace(waiting=SimpleQueue())
    for n in range(waiting):
        child.threads.waiting.put(n)
    child.inflight = InFlightTable(1)
    child.linger_time = lambda: WorkerChild.linger_time(child)
    return child


def test_a_function_longer_than_the_work_ahead_ends_claiming_ahead_at_once():
    """Sixteen that end in step would keep what was claimed ahead waiting for all of their time."""
    prefetch = learnt(16, 0.02, 16)
    prefetch.learn(0.2, now=2.0)
    assert prefetch.ahead(2.0) == 0


def test_claims_stay_large_while_much_is_claimed_ahead():
    prefetch = learnt(16, 0.02, 16)
    ahead = prefetch.ahead(2.0)
    assert prefetch.room(16 + ahead, now=2.0) == 0
    assert prefetch.room(16 + ahead * 3 // 4, now=2.0) == 0
    assert prefetch.room(16 + ahead // 2, now=2.0) == ahead - ahead // 2
