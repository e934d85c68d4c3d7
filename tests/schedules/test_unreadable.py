"""A schedule that cannot be read, or leads nowhere, costs itself alone."""

from __future__ import annotations

import logging

import pytest

from django_tasks_retry import taskqueue
from django_tasks_retry.errors import InvalidSchedule
from django_tasks_retry.models import Schedule
from django_tasks_retry.worker.supervisor.maintenance.schedules import TROUBLE_SECONDS, Schedules
from django_tasks_retry.worker.supervisor.maintenance.services import Pending
from tests.schedules.steps import MANY_DIGITS, MINUTE, POISONS, overwrite, plan, runs, tick


@pytest.fixture(params=POISONS)
def poisoned(request, database, travel) -> str:
    """A schedule that no worker can enqueue, beside one that is due."""
    plan("broken", every=MINUTE)
    plan("sound", every=MINUTE)
    overwrite("broken", database, **POISONS[request.param])
    travel(61)
    return "broken"


class Straight:
    """Calls at once, as the supervisor's caller does after its checks."""

    def call(self, function):
        return function()


@pytest.mark.fault("senseless_schedule_row")
def test_the_others_are_enqueued(poisoned):
    ticked = tick()
    assert (ticked.enqueued, list(ticked.troubles), runs(poisoned)) == (1, [poisoned], [])
    assert len(runs("sound")) == 1


@pytest.mark.fault("senseless_schedule_row")
def test_a_worker_names_it_once_and_polls_on(poisoned, travel, caplog, monkeypatch):
    clock = iter(range(0, 10_000_000, int(TROUBLE_SECONDS) + 1))
    monkeypatch.setattr("django_tasks_retry.worker.supervisor.maintenance.schedules.monotonic", lambda: next(clock))
    ticker = Schedules("w", "default", Straight(), Pending("default", Straight()), lambda ids: None)
    with caplog.at_level(logging.WARNING):
        assert [ticker.enqueue_due() for _ in range(3)] == [1, 0, 0]
    told = [record.getMessage() for record in caplog.records if poisoned in record.getMessage()]
    assert len(told) == 1
    assert "fix or delete it" in told[0]


@pytest.mark.fault("senseless_schedule_row")
def test_until_the_next_try_it_does_not_make_a_worker_busy(poisoned):
    ticker = Schedules("w", "default", Straight(), Pending("default", Straight()), lambda ids: None)
    ticker.enqueue_due()
    assert not ticker.is_time()


@pytest.mark.fault("senseless_schedule_row")
def test_a_change_does_not_replace_what_cannot_be_read(database):
    plan("broken", every=MINUTE)
    overwrite("broken", database, args=MANY_DIGITS)
    with pytest.raises(InvalidSchedule, match="It cannot be read: args"):
        taskqueue.change_schedule("broken", every=60)
    with pytest.raises(InvalidSchedule, match="It cannot be read: args"):
        taskqueue.run_schedule_now("broken")


@pytest.mark.fault("senseless_schedule_row")
def test_the_code_overwrites_what_cannot_be_read(database, configure):
    configure(SCHEDULES={"listed": {"task": "tests.tasks.noop", "every": 60}})
    list(taskqueue.sync_schedules())
    overwrite("listed", database, args=MANY_DIGITS)
    list(taskqueue.sync_schedules())
    assert Schedule.objects.get(pk="listed").args == []
