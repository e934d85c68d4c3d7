"""Backpressure: a call for a queue that is full raises, and stores nothing."""

from __future__ import annotations

import pytest
from django.db import connections, transaction
from django.test.utils import CaptureQueriesContext

from django_tasks_retry import taskqueue
from django_tasks_retry.conf import read_options
from django_tasks_retry.errors import InvalidOptions, QueueFull
from django_tasks_retry.models import Task
from django_tasks_retry.rules.queues import backlog_for, read_backlogs
from django_tasks_retry.rules.status import Status
from django_tasks_retry.taskqueue.enqueue import backlog
from tests import tasks
from tests.steps import claim_one, enqueue


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch):
    monkeypatch.setattr(backlog, "_counts", {})


def test_a_full_queue_raises_and_stores_nothing_and_the_transaction_goes_on(database, configure):
    configure(BACKLOG={"default": {"max_pending": 2}})
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
    caps = read_backlogs({"*": 9, "emails": {"max_pending": 5}})
    assert (backlog_for("emails", caps), backlog_for("other", caps)) == (5, 9)
    assert backlog_for("other", {}) is None


WRONG = [
    (5, "give a dictionary"),
    ({"emails": 0}, "give a number of tasks"),
    ({"emails": True}, "give a number of tasks"),
    ({"emails": {}}, "give a number of tasks"),
    ({"emails": {"waiting": 1}}, "give a number of tasks from 1 on as 'max_pending'"),
    ({"emails": {"max_pending": 1, "on_full": "drop"}}, "give a number of tasks"),
]


@pytest.mark.parametrize(("given", "says"), WRONG, ids=[str(given) for given, _ in WRONG])
def test_a_cap_that_makes_no_sense_is_refused(given, says):
    with pytest.raises(InvalidOptions, match=f"BACKLOG.*{says}"):
        read_options({"BACKLOG": given}, "default")


def test_a_refused_call_takes_no_room_in_a_count_that_is_remembered(database, configure, monkeypatch):
    monkeypatch.setattr(backlog, "EXACT", 2)
    configure(BACKLOG={"default": 3})
    enqueue()
    with pytest.raises(QueueFull):
        Task.objects.enqueue_many([tasks.noop] * 3)
    assert len(Task.objects.enqueue_many([tasks.noop] * 2)) == 2


def test_a_full_lane_is_full_in_all_queues_and_no_other_lane_is(database, configure):
    configure(BACKLOG={"lane:tenant-*": {"max_pending": 2}})
    enqueue(lane="tenant-1"), enqueue(lane="tenant-1", queue="bulk", priority=5)
    assert enqueue(lane="tenant-2").status == enqueue(lane="other").status == enqueue().status == Status.PENDING
    with pytest.raises(QueueFull, match="Lane 'tenant-1' is full: 2 tasks wait"):
        enqueue(lane="tenant-1")
    assert Task.objects.count() == 5


def test_a_pattern_of_queues_means_no_lane_and_one_of_lanes_no_queue():
    caps = read_backlogs({"*": 1, "lane:*": 2})
    assert (backlog_for("emails", caps), backlog_for("lane:x", caps)) == (1, 2)
    assert backlog_for("lane:x", read_backlogs({"*": 1})) is None
