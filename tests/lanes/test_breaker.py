"""A function or lane whose attempts fail pauses itself, probes with one task, and resumes when that succeeds."""

from __future__ import annotations

from datetime import timedelta

import pytest

from django_tasks_retry import clock, lane, taskqueue
from django_tasks_retry.conf import read_options
from django_tasks_retry.errors import InvalidOptions
from django_tasks_retry.models import FlowLimit, LaneStat, OperatorEvent, Task, TaskTotal
from django_tasks_retry.rules.lanes.limits import declaration_of
from django_tasks_retry.rules.status import Status
from django_tasks_retry.taskqueue import Receipt, Stat, tick_breakers
from django_tasks_retry.worker.shared.messages import decode, encode
from django_tasks_retry.worker.shared.outcomes import AttemptResult, Counts, OutcomePublisher
from tests import tasks
from tests.cli.conftest import tasks_command
from tests.lanes.test_limits import with_lanes

ADD = "tests.tasks.add"


@pytest.fixture
def breaker(database, settings):
    settings.TASKS = with_lanes(settings.TASKS, {f"function:{ADD}": {"failure_threshold": 0.5}})


def ended(completed: int = 0, failed: int = 0) -> None:
    taskqueue.add_stats([Stat("default", ADD, completed=completed, failed=failed)])


@pytest.mark.usefixtures("breaker")
def test_it_trips_probes_trips_again_and_resumes(claim, enqueue, database):
    enqueue(tasks.add, 5, 1, 2)
    ended(completed=9, failed=10)
    assert tick_breakers() == 0, "too few to tell"
    ended(failed=20)
    assert tick_breakers() == 1
    assert claim() == []
    clock.shift(timedelta(seconds=61), database)
    assert tick_breakers() == 1
    [probe] = claim()
    assert probe.func_path == ADD
    ended(failed=1)
    assert tick_breakers() == 1
    assert claim() == []
    clock.shift(timedelta(seconds=125), database)
    tick_breakers()
    ended(completed=1)
    assert tick_breakers() == 1
    assert len(claim()) == 4
    assert tick_breakers() == 0, "what was before is over"
    told = OperatorEvent.objects.order_by("id").values_list("kind", "actor", "reason")
    assert [kind for kind, *_ in told] == ["lane.paused", "lane.probing", "lane.paused", "lane.probing", "lane.resumed"]
    assert told[0][1:] == ("breaker", "30 of 39 attempts failed in the last minutes")


@pytest.mark.usefixtures("breaker")
def test_a_function_that_mostly_succeeds_is_left_alone():
    ended(completed=30, failed=20)
    assert tick_breakers() == 0


@pytest.mark.usefixtures("breaker")
def test_a_person_who_resumes_it_is_believed():
    ended(failed=30)
    tick_breakers()
    assert taskqueue.resume(ADD, kind="function", by="ann")
    assert tick_breakers() == 0


def test_without_a_breaker_nothing_is_asked(database, django_assert_num_queries):
    with django_assert_num_queries(0, using=database):
        assert tick_breakers() == 0
    assert not FlowLimit.objects.exists()


def test_a_breaker_is_for_functions_and_lanes():
    with pytest.raises(InvalidOptions, match="for functions and lanes"):
        read_options({"LANES": {"queue:crm": {"failure_threshold": 0.5}}}, "default")


# Of a lane


@pytest.fixture
def lane_breaker(database, settings):
    settings.TASKS = with_lanes(settings.TASKS, {"shop-*": {"failure_threshold": 0.5}})


def ended_in(lane: str, completed: int = 0, failed: int = 0) -> None:
    taskqueue.add_stats([Stat("default", ADD, completed, failed=failed, lane=lane)])


@pytest.mark.usefixtures("lane_breaker")
def test_a_lane_trips_and_another_lane_of_the_same_function_goes_on(claim, enqueue):
    enqueue(tasks.add, 2, 1, 2, lane="shop-1")
    enqueue(tasks.add, 2, 1, 2, lane="shop-2")
    ended_in("shop-1", completed=10, failed=10)
    ended_in("shop-2", completed=11, failed=10)
    assert tick_breakers() == 1
    assert {lease.lane for lease in claim()} == {"shop-2"}
    told = OperatorEvent.objects.get()
    assert (told.subject, told.actor, told.reason) == (
        "shop-1",
        "breaker",
        "10 of 20 attempts failed in the last minutes",
    )


@pytest.mark.usefixtures("lane_breaker")
def test_a_lane_probes_one_at_a_time_and_goes_on_when_one_succeeds(claim, enqueue, database):
    enqueue(tasks.add, 5, 1, 2, lane="shop-1")
    ended_in("shop-1", failed=30)
    tick_breakers()
    clock.shift(timedelta(seconds=61), database)
    assert tick_breakers() == 1
    assert len(claim()) == 1
    assert tick_breakers() == 0, "the probe has not ended"
    ended_in("shop-1", failed=1)
    assert tick_breakers() == 1
    assert claim() == []
    clock.shift(timedelta(seconds=125), database)
    tick_breakers()
    ended_in("shop-1", completed=1)
    assert tick_breakers() == 1
    assert len(claim()) == 4
    kinds = OperatorEvent.objects.order_by("id").values_list("kind", flat=True)
    assert list(kinds) == ["lane.paused", "lane.probing", "lane.paused", "lane.probing", "lane.resumed"]


@pytest.mark.usefixtures("lane_breaker")
def test_what_ended_while_a_lane_rested_is_not_taken_for_its_probe(database):
    ended_in("shop-1", failed=30)
    tick_breakers()
    clock.shift(timedelta(seconds=61), database)
    ended_in("shop-1", failed=1)
    assert tick_breakers() == 1
    assert tick_breakers() == 0


@pytest.mark.usefixtures("lane_breaker")
def test_a_tripped_lane_is_told_in_the_shell_and_to_who_asks_why(enqueue, why, claim, database):
    [task] = enqueue(tasks.add, 1, 1, 2, lane="shop-1")
    ended_in("shop-1", failed=30)
    tick_breakers()
    shown = tasks_command("lanes")
    assert "tripped" in shown.out
    assert "shop-1 was paused by breaker: 30 of 30 attempts failed" in shown.err
    assert why(task).startswith("The circuit breaker paused shop-1 at ")
    assert "(30 of 30 attempts failed in the last minutes). It lets one task try in " in why(task)
    clock.shift(timedelta(seconds=61), database)
    tick_breakers()
    taskqueue.heartbeat("w", "default", 0)
    enqueue(tasks.add, 1, 1, 2, lane="shop-1")
    claim(1)
    later = Task.objects.pending().get()
    assert why(later) == "The circuit breaker lets shop-1 try one task at a time until one succeeds."


@pytest.mark.usefixtures("lane_breaker")
def test_a_worker_counts_how_attempts_of_a_lane_with_a_breaker_ended_and_of_no_other(claim, enqueue):
    enqueue(tasks.add, 1, 1, 2, lane="shop-1")
    enqueue(tasks.add, 1, 1, 2, lane="other")
    counts = Counts()
    for lease in claim():
        for status in (Status.SUCCESS, Status.FAILED):
            OutcomePublisher(counts.note, print).publish(AttemptResult(Receipt(lease, status)))
    taskqueue.add_stats([decode(encode(stat)) for stat in counts.take()])
    assert list(LaneStat.objects.values_list("lane", "completed", "failed")) == [("shop-1", 1, 1)]
    assert list(TaskTotal.objects.values_list("completed", "failed")) == [(2, 2)]


def test_a_breaker_may_stand_in_code():
    assert declaration_of(lane("x", failure_threshold=0.3)(lambda: None)).limit.failure_threshold == 0.3
