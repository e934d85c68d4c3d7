"""At each statement of the tick something goes wrong: the slot and its task come together, once."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from django.db import OperationalError, connections

from django_tasks_retry import clock
from django_tasks_retry.models import Task
from tests.schedules.steps import MINUTE, decisions, last_decision, plan, row, runs, slots, tick


class Disturbed:
    """Lets statements pass up to one, and makes that fail: before it reaches the database, or after."""

    def __init__(self, nth: int, when: str) -> None:
        self.nth, self.when, self.seen = nth, when, 0

    def __call__(self, execute, sql, params, many, context):
        if sql.startswith("BEGIN"):  # after which Django must be told of a transaction
            return execute(sql, params, many, context)
        self.seen += 1
        if self.seen == self.nth and self.when == "before":
            raise OperationalError("cut")
        answer = execute(sql, params, many, context)
        if self.seen == self.nth:
            raise OperationalError("cut")
        return answer


def disturbed_tick(using: str, nth: int, when: str) -> int:
    """How many statements it came to."""
    with connections[using].execute_wrapper(wrapper := Disturbed(nth, when)), suppress(OperationalError):
        tick()
    return wrapper.seen


@pytest.mark.fault("tick_cut_at_any_statement")
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_tick_that_fails_at_any_statement_leaves_nothing_half_done(committed, travel, when):
    first = plan(every=MINUTE).next_at
    travel(200)
    nth = 1
    while not runs():
        assert disturbed_tick(committed, nth, when) <= nth
        assert (len(runs()) == 1) == (row().last_outcome == "enqueued") == (row().next_at > first), nth
        nth += 1
    assert nth > 6, "now, what is due, what runs, what has a task, the tasks, the decisions, the rows"
    tick()
    assert slots() == [first + 2 * MINUTE]
    assert decisions() == ["schedule.created", "schedule.missed"]


@pytest.mark.fault("no_worker_for_many_slots")
def test_after_a_long_silence_there_is_no_storm(committed, travel):
    first = plan(every=1).next_at
    travel(86400)
    assert tick().enqueued == 1
    assert tick().enqueued == 0
    assert last_decision().data["count"] == (runs()[0].slot - first) / timedelta(seconds=1)


@pytest.mark.fault("schedules_in_daylight_saving")
@pytest.mark.parametrize("use_tz", [True, False])
@pytest.mark.parametrize(
    ("start", "slots_there"),
    [
        ("2027-03-27T12:00", ["2027-03-28T01:00", "2027-03-29T00:30", "2027-03-30T00:30"]),
        ("2027-10-30T12:00", ["2027-10-31T00:30", "2027-11-01T01:30", "2027-11-02T01:30"]),
    ],
    ids=["spring", "autumn"],
)
def test_half_past_two_runs_once_a_day_when_the_clocks_change(database, settings, start, slots_there, use_tz):
    settings.USE_TZ, settings.TIME_ZONE = use_tz, "America/New_York"

    def set_clock(moment: datetime) -> None:
        clock.shift(timedelta(0), database)
        clock.shift(moment - clock.now(database), database)

    set_clock(datetime.fromisoformat(start).replace(tzinfo=UTC))
    plan(cron="30 2 * * *", timezone="Europe/Berlin", overlap="allow")
    for _ in slots_there:
        set_clock(row().next_at + timedelta(seconds=1))
        assert (tick().enqueued, tick().enqueued) == (1, 0)
    assert slots() == [datetime.fromisoformat(slot).replace(tzinfo=UTC) for slot in slots_there]


@pytest.mark.fault("wrong_worker_clock_at_a_slot")
@pytest.mark.parametrize("on", ["postgresql"], indirect=True)
@pytest.mark.parametrize("hours", [-3, 3])
def test_the_clock_of_the_host_decides_nothing(database, monkeypatch, hours):
    """PostgreSQL's; on SQLite the host's is the queue's."""
    plan(every=3600)
    clock.shift(timedelta(hours=hours), database)
    assert tick().enqueued == (1 if hours > 0 else 0)
    assert all(abs(task.slot - clock.now(database)) < timedelta(hours=1) for task in Task.objects.all())
