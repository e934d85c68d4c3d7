"""Many ticks at once, with connections of their own: one task for each slot.

`TICK_RACES=500 pytest tests/schedules/test_races.py` races as often as a release is asked to.
"""

from __future__ import annotations

import os
from datetime import timedelta

import pytest

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Schedule, Task
from tests.races.together import beside, together
from tests.schedules.steps import MINUTE, plan, row, runs, tick

RACES = int(os.environ.get("TICK_RACES", "20"))
TICKERS = 8
SECOND = timedelta(seconds=1)


def set_due(slot):
    Schedule.objects.update(next_at=slot)


@pytest.mark.fault("many_workers_tick_one_slot")
def test_eight_connections_that_race_for_a_slot_make_one_task(committed):
    first = plan(every=1, overlap="allow").next_at - timedelta(hours=1)
    for n in range(RACES):
        set_due(first + n * SECOND)
        Schedule.objects.update(ends_at=first + n * SECOND)
        done = together(*[tick] * TICKERS)
        assert sum(ticked.enqueued for ticked in done) == 1, n
    assert Task.objects.count() == RACES
    assert len({task.slot for task in runs()}) == RACES


@pytest.mark.fault("many_workers_tick_one_slot")
def test_eight_connections_share_many_schedules(committed, monkeypatch, travel):
    monkeypatch.setattr("django_tasks_retry.taskqueue.schedules.tick.BATCH", 10)
    names = [f"s{n}" for n in range(100)]
    for name in names:
        plan(name, every=MINUTE)
    travel(61)

    def tick_all():
        while tick().is_full:
            pass

    together(*[tick_all] * TICKERS)
    tick_all()
    assert sorted(Task.objects.values_list("schedule_id", flat=True)) == sorted(names)


@pytest.mark.parametrize("on", ["postgresql"], indirect=True)
def test_a_tick_passes_by_what_another_ticks_and_waits_for_nobody(committed, travel):
    plan()
    travel(61)
    mine, theirs, waited = beside(committed, tick, tick)
    assert not waited
    assert (mine.enqueued, theirs.enqueued) == (1, 0)


@pytest.mark.parametrize("on", ["postgresql"], indirect=True)
def test_a_tick_in_progress_holds_up_no_claims(committed, travel):
    plan()
    plan("other", every=MINUTE).run_now()
    travel(61)
    _, claimed, waited = beside(committed, tick, lambda: taskqueue.claim("worker"))
    assert not waited
    assert len(claimed) == 1


@pytest.mark.fault("many_workers_tick_one_slot")
def test_a_pause_that_races_a_tick_lets_it_run_or_stops_it(committed, travel):
    plan()
    travel(61)
    ticked, _ = together(tick, lambda: row().pause())
    assert ticked.enqueued == len(runs())
    assert row().paused_at is not None
    assert tick().enqueued == 0
