"""A function most of whose attempts fail pauses itself, probes with one task, and resumes when that succeeds."""

from __future__ import annotations

from datetime import timedelta

import pytest

from django_tasks_retry import clock, taskqueue
from django_tasks_retry.errors import InvalidOptions
from django_tasks_retry.models import LaneState, OperatorEvent
from django_tasks_retry.taskqueue import Stat, tick_breakers
from tests import tasks
from tests.lanes.test_limits import with_lanes

ADD = "tests.tasks.add"


@pytest.fixture
def breaker(database, settings):
    settings.TASKS = with_lanes(settings.TASKS, {f"function:{ADD}": {"trips": 0.5}})


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
    assert taskqueue.resume_lane(f"function:{ADD}", by="ann")
    assert tick_breakers() == 0


def test_without_a_breaker_nothing_is_asked(database, django_assert_num_queries):
    with django_assert_num_queries(0, using=database):
        assert tick_breakers() == 0
    assert not LaneState.objects.exists()


def test_a_breaker_is_for_functions(settings):
    from django_tasks_retry.conf import read_options

    with pytest.raises(InvalidOptions, match="for functions"):
        read_options({"LANES": {"tenant-*": {"trips": 0.5}}}, "default")
