"""A lane or a function is paused, resumed and limited by people, with a reason that is kept."""

from __future__ import annotations

import pytest

from django_tasks_retry import taskqueue
from django_tasks_retry.errors import InvalidCall, InvalidLane
from django_tasks_retry.models import FlowLimit, OperatorEvent, Queue, Schedule
from django_tasks_retry.taskqueue import ClaimMemory, lanes
from tests import tasks
from tests.cli.conftest import tasks_command
from tests.steps import stopped

pytestmark = pytest.mark.usefixtures("database")


def test_a_paused_lane_waits_and_others_go_on(claim, enqueue):
    enqueue(tasks.noop, 2, lane="a")
    enqueue(tasks.noop, 1, lane="b")
    taskqueue.pause("a", kind="lane", by="ann", reason="their API is down")
    assert [lease.lane for lease in claim()] == ["b"]
    assert taskqueue.resume("a", kind="lane", by="ann")
    assert not taskqueue.resume("a", kind="lane")
    assert [lease.lane for lease in claim()] == ["a", "a"]
    events = OperatorEvent.objects.order_by("id").values_list("kind", "subject", "actor", "reason")
    assert list(events) == [("lane.paused", "a", "ann", "their API is down"), ("lane.resumed", "a", "ann", "")]


def test_a_paused_function_waits_wherever_its_tasks_are(claim, enqueue):
    enqueue(tasks.add, 1, 1, 2)
    enqueue(tasks.add, 1, 1, 2, lane="a")
    enqueue(tasks.noop)
    taskqueue.pause("tests.tasks.add", kind="function", by="ann")
    assert [lease.func_path for lease in claim()] == ["tests.tasks.noop"]
    taskqueue.resume("tests.tasks.add", kind="function")
    assert len(claim()) == 2


@pytest.mark.fault("lane_paused_while_remembered_open")
def test_a_pause_holds_for_a_claimer_that_has_not_looked_since(enqueue):
    enqueue(tasks.add, 3, 1, 2)
    enqueue(tasks.noop, 3, lane="a")
    memory = ClaimMemory(clock=stopped)
    assert len(taskqueue.claim("worker/1", limit=2, memory=memory)) == 2
    taskqueue.pause("tests.tasks.add", kind="function")
    taskqueue.pause("a", kind="lane")
    assert taskqueue.claim("worker/1", limit=10, memory=memory) == []


@pytest.mark.parametrize("label", ["", "x" * 101, "function:pay"])
def test_what_names_no_lane_is_refused(label):
    with pytest.raises((InvalidCall, InvalidLane)):
        taskqueue.pause(label, kind="lane")


def test_a_queue_by_its_label_is_paused_in_its_own_row():
    taskqueue.pause("queue:default", kind="lane", by="ann")
    assert Queue.objects.get().paused_by == "ann"
    assert not FlowLimit.objects.exists()
    assert taskqueue.resume("default")


SUBJECTS = {
    "queue": "default", "lane": "a", "function": "tests.tasks.add", "schedule": "every minute",
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(SUBJECTS))
def test_one_verb_pauses_and_resumes_whatever_can_be(kind):
    name = SUBJECTS[kind]
    taskqueue.create_schedule(name="every minute", task=tasks.noop, every=60)
    OperatorEvent.objects.all().delete()
    answers = [tasks_command("pause", *of_shell(kind), "--reason", "INC-204").code]
    row = next(row for model in (Queue, FlowLimit, Schedule) for row in model.objects.filter(name=name))
    assert (row.paused_at is not None, row.paused_by.partition(":")[0], row.reason) == (True, "cli", "INC-204")
    answers += [tasks_command("resume", *of_shell(kind)).code for _ in range(2)]
    assert answers == [0, 0, 5]
    row.refresh_from_db()
    assert (row.paused_at, row.paused_by, row.reason) == (None, "", "")
    event = "lane" if kind == "function" else kind
    assert list(OperatorEvent.objects.order_by("id").values_list("kind", flat=True)) == [
        f"{event}.paused",
        f"{event}.resumed",
    ]


def of_shell(kind: str) -> list[str]:
    return [SUBJECTS[kind]] if kind == "queue" else [f"--{kind}", SUBJECTS[kind]]


def test_what_cannot_be_paused_is_refused():
    with pytest.raises(InvalidCall, match="queue, lane, function, schedule"):
        taskqueue.pause("x", kind="worker")


def test_a_decision_that_makes_no_sense_is_refused_and_changes_nothing():
    with pytest.raises(InvalidLane):
        taskqueue.limit_lane("a", concurrency=0)
    with pytest.raises(InvalidLane, match="weight"):
        taskqueue.limit_lane("queue:default", weight=2)
    assert not FlowLimit.objects.exists()


def test_the_shell_lists_pauses_resumes_and_limits_lanes(enqueue, claim):
    enqueue(tasks.sync, 3, 1)
    assert len(claim()) == 2
    listed = tasks_command("lanes", "--json").record
    assert (listed["lane"], listed["state"], listed["running"], listed["waiting"]) == ("tenant-1", "full", 2, 1)
    assert "2 of 2" in tasks_command("lanes", "tenant").out
    assert tasks_command("pause", "--lane", "tenant-1", "--reason", "they asked").code == 0
    assert tasks_command("lanes", "--json").record["state"] == "paused"
    assert tasks_command("resume", "--lane", "tenant-1").code == 0
    assert tasks_command("resume", "--lane", "tenant-1").code == 5
    assert (
        tasks_command("limit", "tenant-1", "--concurrency", "3", "--reason", "they paid", "--json").record["done"] == 1
    )
    assert len(claim()) == 1
    assert tasks_command("limit", "tenant-1", "--concurrency", "0", "--reason", "x").code == 2
    assert tasks_command("pause", "--reason", "x").code == 2
    assert tasks_command("pause", "--function", "tests.tasks.noop", "--reason", "x").code == 0


def test_the_shell_answers_an_old_or_vague_word_with_the_new_one(database):
    for old in (("--running", 3), ("--starts", 5), ("--per", "60s"), ("--rate", "fast")):
        answer = tasks_command("limit", "tenant-1", "--reason", "x", *old)
        assert (answer.code, "100/60" in answer.err) == (2, True)
    assert not FlowLimit.objects.exists()


def test_the_shell_removes_a_limit_only_if_it_is_told_to(database):
    limit = ("limit", "tenant-1", "--reason", "x")
    assert tasks_command(*limit, "--rate", "5/60", "--concurrency", 3).out == (
        "tenant-1: at most 3 at once, at most 5 starts in 1 min, weight 1.\n"
    )
    assert tasks_command("lanes", "--json").record["decided_by"].startswith("cli:")
    for vague in (limit, (*limit, "--clear", "--concurrency", 3)):
        answer = tasks_command(*vague)
        assert (answer.code, answer.out) == (2, "")
        assert "--clear" in answer.err
    assert tasks_command(*limit, "--weight", 2).code == 0
    assert (FlowLimit.objects.get().running, FlowLimit.objects.get().weight) == (3, 2), "other numbers stay"
    assert tasks_command(*limit, "--clear").out.startswith("tenant-1: The settings and the code decide again: ")
    assert FlowLimit.objects.get().running is None


def test_after_a_decision_is_taken_back_the_shell_names_nobody_as_the_console_does(enqueue, claim):
    enqueue(tasks.sync, 3, 1)
    claim()
    assert tasks_command("limit", "tenant-1", "--concurrency", 3, "--reason", "they paid").code == 0
    assert tasks_command("limit", "tenant-1", "--clear", "--reason", "over").code == 0
    record = tasks_command("lanes", "--json").record
    assert (record["decided_by"], record["decided_for"]) == ("", "")
    assert "cli:" not in tasks_command("lanes").out


def test_the_shell_finds_tasks_by_their_lane(enqueue):
    [row] = enqueue(tasks.sync, 1, 1)
    enqueue(tasks.sync, 1, 2)
    assert [record["id"] for record in tasks_command("list", "lane:tenant-1", "--json").records] == [str(row.pk)]


def test_a_full_lane_is_shown_among_more_lanes_than_are_shown(enqueue, claim, database):
    lanes.create_limits([f"a{n}" for n in range(60)], database)
    enqueue(tasks.sync, 3, "zebra")
    assert len(claim()) == 2
    shown = lanes.summarize_lanes("default")
    assert (shown[0].label, shown[0].is_full, len(shown)) == ("tenant-zebra", True, lanes.MOST_SHOWN)
    taskqueue.pause("a59", kind="lane")
    assert [each.label for each in lanes.summarize_lanes("default")][:2] == ["a59", "tenant-zebra"]
