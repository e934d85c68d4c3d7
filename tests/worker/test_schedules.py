"""Workers and schedules: any worker ticks, each slot runs once, and code comes and goes."""

from __future__ import annotations

import signal
from datetime import datetime, timedelta

import pytest

from django_tasks_retry.clock import Now
from django_tasks_retry.models import OperatorEvent, Schedule, Task
from tests.worker import tasks
from tests.worker.harness import wait_for

EVERY_SECOND = {"task": "tests.worker.tasks.plain.canary", "args": ["slot"], "every": 1, "overlap": "allow"}
SECOND = timedelta(seconds=1)


def missed_slots(name: str) -> list[datetime]:
    found = []
    for event in OperatorEvent.objects.filter(subject=name, kind="schedule.missed"):
        first, last = (datetime.fromisoformat(event.data[key]) for key in ("first", "last"))
        found += [first + n * SECOND for n in range((last - first) // SECOND + 1)]
    return found


def test_two_workers_run_every_slot_once(start, effects):
    Schedule.objects.create(name="seconds", **{**EVERY_SECOND, "task": tasks.canary})
    workers = [start(), start()]
    wait_for(lambda: Task.objects.filter(schedule="seconds").successful().count() >= 3, "three slots done")
    for worker in workers:
        worker.signal(signal.SIGTERM)
        assert worker.exit_code() == 0
    slots = sorted([*Task.objects.filter(schedule="seconds").values_list("slot", flat=True), *missed_slots("seconds")])
    assert slots == [slots[0] + n * SECOND for n in range(len(slots))]
    assert Schedule.objects.get().next_at == slots[-1] + SECOND


def test_a_worker_that_drains_runs_the_slots_that_are_due(start, effects):
    Schedule.objects.create(name="hours", task=tasks.canary, every=3600)
    Schedule.objects.update(next_at=Now())
    assert start("--drain").exit_code() == 0
    assert Task.objects.get(schedule="hours").status == "SUCCESS"


@pytest.mark.fault("schedule_changes_in_rolling_deploy")
@pytest.mark.parametrize("on", ["postgresql"], indirect=True)
def test_a_rolling_deploy_adds_one_schedule_and_stops_another(start, effects):
    def ran(name: str) -> int:
        return Task.objects.filter(schedule=name).count()

    old = start(schedules={"leaving": EVERY_SECOND, "staying": EVERY_SECOND})
    wait_for(lambda: ran("leaving") > 0, "the old release runs its own")
    start(schedules={"coming": EVERY_SECOND, "staying": EVERY_SECOND})
    wait_for(lambda: ran("coming") > 0, "the new one runs its own")
    before = ran("leaving")
    wait_for(lambda: ran("leaving") > before, "and beside it the old one goes on")
    old.signal(signal.SIGTERM)
    assert old.exit_code() == 0
    wait_for(lambda: Schedule.objects.get(pk="leaving").vanished_at is not None, "it is stopped")
    before, staying = ran("leaving"), ran("staying")
    wait_for(lambda: ran("staying") > staying + 1, "the others go on")
    assert ran("leaving") == before
    assert Schedule.objects.get(pk="staying").vanished_at is None
