"""Backpressure: no more tasks wait in a queue than the settings allow, and what then is their choice."""

from __future__ import annotations

import logging

import pytest
from django.db import connections, transaction
from django.test.utils import CaptureQueriesContext

from django_tasks_retry import taskqueue
from django_tasks_retry.conf import read_options
from django_tasks_retry.errors import InvalidOptions, QueueFull
from django_tasks_retry.models import Task, TaskEvent
from django_tasks_retry.rules.backlog import Backlog, Full, backlog_for, read_backlogs
from django_tasks_retry.rules.status import Status
from django_tasks_retry.taskqueue.producer import backlog
from tests import tasks
from tests.model.invariants import violations
from tests.steps import claim_one, enqueue


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch):
    monkeypatch.setattr(backlog, "_counts", {})
    monkeypatch.setattr(backlog, "_warned", {})


def test_a_full_queue_raises_and_stores_nothing_and_the_transaction_goes_on(database, configure):
    configure(BACKLOG={"default": {"waiting": 2}})
    with transaction.atomic(using=database):
        enqueue(), enqueue()
        with pytest.raises(QueueFull, match=r"Queue 'default' is full: 2 tasks wait.*start more workers"):
            enqueue()
        enqueue(queue="bulk")
    assert Task.objects.count() == 3


def test_there_is_room_again_once_a_task_was_claimed(database, configure):
    configure(BACKLOG={"default": 1})
    enqueue()
    claim_one()
    assert enqueue().status == Status.PENDING


def test_many_that_do_not_all_fit_are_refused_as_a_whole(database, configure):
    configure(BACKLOG={"default": 3})
    enqueue()
    with pytest.raises(QueueFull):
        Task.objects.enqueue_many([tasks.noop] * 3)
    assert Task.objects.count() == 1


def test_what_is_dropped_is_cancelled_with_the_reason_and_told(database, configure):
    configure(BACKLOG={"default": {"waiting": 2, "full": "drop"}})
    made = Task.objects.enqueue_many([(tasks.noop, [n]) for n in range(4)])
    assert [task.status for task in made] == [Status.PENDING] * 2 + [Status.CANCELLED] * 2
    event = TaskEvent.objects.get(task=made[3])
    assert (event.actor, event.data["reason"]) == ("queue", "queue default is full: 2 tasks wait")
    assert violations(database) == []


def test_a_warning_is_logged_and_the_task_is_stored(database, configure, caplog):
    configure(BACKLOG={"default": {"waiting": 1, "full": "warn"}})
    with caplog.at_level(logging.WARNING, "django_tasks_retry"):
        made = [enqueue() for _ in range(4)]
    assert {task.status for task in made} == {Status.PENDING}
    assert [record.message for record in caplog.records] == [
        "queue default is full: 1 tasks wait; more are enqueued nevertheless"
    ]


def test_a_call_that_adds_nothing_is_let_in(database, configure):
    configure(BACKLOG={"default": 1})
    first = enqueue(unique_key="k")
    assert enqueue(unique_key="k").pk == first.pk
    assert enqueue(unique_key="k", debounce=5).pk == first.pk


def test_operators_and_repetitions_are_not_refused(database, configure):
    configure(BACKLOG={"default": 1})
    enqueue(interval=60)
    taskqueue.complete_task(claim_one())
    done = Task.objects.successful().get()
    assert done.retry().status == Status.PENDING
    assert Task.objects.pending().count() == 2


def test_a_large_count_is_remembered_with_what_was_added(database, configure, monkeypatch):
    monkeypatch.setattr(backlog, "EXACT", 2)
    configure(BACKLOG={"default": 3})
    enqueue()
    with CaptureQueriesContext(connections[database]) as captured:
        enqueue(), enqueue()
    assert not any("waiting" in query["sql"] for query in captured)
    with pytest.raises(QueueFull):
        enqueue()


def test_a_queue_without_a_cap_is_not_looked_at(database, configure):
    configure(BACKLOG={"bulk": 1})
    with CaptureQueriesContext(connections[database]) as captured:
        enqueue()
    assert not any("waiting" in query["sql"] for query in captured)


def test_the_queues_own_cap_is_stronger_than_a_pattern():
    caps = read_backlogs({"*": 9, "emails": {"waiting": 5, "full": "drop"}})
    assert backlog_for("emails", caps) == Backlog(5, Full.DROP)
    assert backlog_for("other", caps) == Backlog(9, Full.RAISE)
    assert backlog_for("other", {}) is None


@pytest.mark.parametrize(
    "given",
    [5, {"emails": 0}, {"emails": True}, {"emails": {"full": "raise"}}, {"emails": {"waiting": 1, "full": "x"}}],
)
def test_a_cap_that_makes_no_sense_is_refused(given):
    with pytest.raises(InvalidOptions, match=r"BACKLOG.*give"):
        read_options({"BACKLOG": given}, "default")


@pytest.mark.parametrize("full", ["raise", "drop", "warn"])
def test_a_full_lane_is_full_in_all_queues_and_no_other_lane_is(database, configure, full):
    configure(BACKLOG={"lane:tenant-*": {"waiting": 2, "full": full}})
    enqueue(lane="tenant-1"), enqueue(lane="tenant-1", queue="bulk", priority=5)
    assert enqueue(lane="tenant-2").status == enqueue(lane="other").status == enqueue().status == Status.PENDING
    if full == "raise":
        with pytest.raises(QueueFull, match="Lane 'tenant-1' is full: 2 tasks wait"):
            enqueue(lane="tenant-1")
    else:
        assert enqueue(lane="tenant-1").status == (Status.CANCELLED if full == "drop" else Status.PENDING)
    assert Task.objects.count() == (5 if full == "raise" else 6)


def test_a_pattern_of_queues_means_no_lane_and_one_of_lanes_no_queue():
    caps = read_backlogs({"*": 1, "lane:*": 2})
    assert (backlog_for("emails", caps), backlog_for("lane:x", caps)) == (Backlog(1), Backlog(2))
    assert backlog_for("lane:x", read_backlogs({"*": 1})) is None
