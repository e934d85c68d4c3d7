"""A lane or a function is paused, resumed and limited by people, with a reason that is kept."""

from __future__ import annotations

import pytest

from django_tasks_retry import taskqueue
from django_tasks_retry.errors import InvalidCall, InvalidLane
from django_tasks_retry.models import LaneState, OperatorEvent
from django_tasks_retry.taskqueue import Lanes
from django_tasks_retry.taskqueue.lanes import states, summaries
from tests import tasks
from tests.cli.conftest import tasks_command

pytestmark = pytest.mark.usefixtures("database")


def test_a_paused_lane_waits_and_others_go_on(claim, enqueue):
    enqueue(tasks.noop, 2, lane="a")
    enqueue(tasks.noop, 1, lane="b")
    taskqueue.pause_lane("a", by="ann", reason="their API is down")
    assert [lease.lane for lease in claim()] == ["b"]
    assert taskqueue.resume_lane("a", by="ann")
    assert not taskqueue.resume_lane("a")
    assert [lease.lane for lease in claim()] == ["a", "a"]
    events = OperatorEvent.objects.order_by("id").values_list("kind", "subject", "actor", "reason")
    assert list(events) == [("lane.paused", "a", "ann", "their API is down"), ("lane.resumed", "a", "ann", "")]


def test_a_paused_function_waits_wherever_its_tasks_are(claim, enqueue):
    enqueue(tasks.add, 1, 1, 2)
    enqueue(tasks.add, 1, 1, 2, lane="a")
    enqueue(tasks.noop)
    taskqueue.pause_lane("function:tests.tasks.add", by="ann")
    assert [lease.func_path for lease in claim()] == ["tests.tasks.noop"]
    taskqueue.resume_lane("function:tests.tasks.add")
    assert len(claim()) == 2


@pytest.mark.fault("F263")
def test_a_pause_holds_for_a_claimer_that_has_not_looked_since(enqueue):
    enqueue(tasks.add, 3, 1, 2)
    enqueue(tasks.noop, 3, lane="a")
    lanes = Lanes(slow=float("inf"))
    assert len(taskqueue.claim("worker/1", limit=2, lanes=lanes)) == 2
    taskqueue.pause_lane("function:tests.tasks.add")
    taskqueue.pause_lane("a")
    assert taskqueue.claim("worker/1", limit=10, lanes=lanes) == []


@pytest.mark.parametrize("label", ["", "x" * 101, "function:pay"])
def test_what_names_no_lane_is_refused(label):
    with pytest.raises((InvalidCall, InvalidLane)):
        taskqueue.pause_lane(label)


def test_a_queue_is_paused_by_its_own_door():
    with pytest.raises(InvalidLane, match="pause"):
        taskqueue.pause_lane("queue:default")


def test_a_decision_that_makes_no_sense_is_refused_and_changes_nothing():
    with pytest.raises(InvalidLane):
        taskqueue.limit_lane("a", running=0)
    with pytest.raises(InvalidLane, match="weight"):
        taskqueue.limit_lane("queue:default", weight=2)
    assert not LaneState.objects.exists()


def test_the_shell_lists_pauses_resumes_and_limits_lanes(enqueue, claim):
    enqueue(tasks.sync, 3, 1)
    assert len(claim()) == 2
    listed = tasks_command("lanes", "--json").record
    assert (listed["lane"], listed["state"], listed["running"], listed["waiting"]) == ("tenant-1", "full", 2, 1)
    assert "2 of 2" in tasks_command("lanes", "tenant").out
    assert tasks_command("pause", "--lane", "tenant-1", "--reason", "they asked").code == 0
    assert tasks_command("lanes", "--json").record["state"] == "PAUSED"
    assert tasks_command("resume", "--lane", "tenant-1").code == 0
    assert tasks_command("resume", "--lane", "tenant-1").code == 5
    assert tasks_command("limit", "tenant-1", "--running", "3", "--reason", "they paid", "--json").record["done"] == 1
    assert len(claim()) == 1
    assert tasks_command("limit", "tenant-1", "--running", "0", "--reason", "x").code == 2
    assert tasks_command("pause", "--reason", "x").code == 2
    assert tasks_command("pause", "--function", "tests.tasks.noop", "--reason", "x").code == 0


def test_the_shell_finds_tasks_by_their_lane(enqueue):
    [row] = enqueue(tasks.sync, 1, 1)
    enqueue(tasks.sync, 1, 2)
    assert [record["id"] for record in tasks_command("list", "lane:tenant-1", "--json").records] == [str(row.pk)]


def test_a_full_lane_is_shown_among_more_lanes_than_are_shown(enqueue, claim, database):
    states.make([f"a{n}" for n in range(60)], database)
    enqueue(tasks.sync, 3, "zebra")
    assert len(claim()) == 2
    shown = summaries.summarize_lanes("default")
    assert (shown[0].label, shown[0].is_full, len(shown)) == ("tenant-zebra", True, summaries.MOST_SHOWN)
    taskqueue.pause_lane("a59")
    assert [each.label for each in summaries.summarize_lanes("default")][:2] == ["a59", "tenant-zebra"]
