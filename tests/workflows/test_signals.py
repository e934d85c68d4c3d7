"""Signals: whichever comes first, the task or the signal, they find each other."""

from __future__ import annotations

import pytest
from django.db import connections, transaction
from django.test.utils import CaptureQueriesContext

from django_tasks_retry import signal, taskqueue
from django_tasks_retry.errors import InvalidCall, InvalidPayload
from django_tasks_retry.models import Signal, Step, Task
from django_tasks_retry.taskqueue.workflows.wake import wake
from tests.steps import now_of
from tests.workflows import tasks


def test_a_signal_that_came_before_is_found(harness):
    assert signal("approved:1", {"by": 7})
    task = Task.objects.enqueue(tasks.approval, ["approved:1"])
    harness.run_due()
    assert now_of(task).outcome.result == {"by": 7}
    assert now_of(task).attempts == 1


def test_a_signal_that_comes_later_wakes_who_waits(harness):
    task = Task.objects.enqueue(tasks.approval, ["approved:1"])
    harness.run_until_idle()
    assert now_of(task).waits_for == "signal:approved:1"
    signal("approved:2")
    assert harness.run_until_idle() == []
    signal("approved:1", "yes")
    harness.run_due()
    assert now_of(task).outcome.result == "yes"


def test_who_begins_to_wait_does_not_read_those_who_wait_already(harness):
    waiting = [Task.objects.enqueue(tasks.approval, ["approved:1"]) for _ in range(2)]
    harness.run_until_idle()
    with CaptureQueriesContext(connections[harness.using]) as asked:
        assert wake(["signal:approved:1"], harness.using) == []
    assert len(asked) == 1
    assert "waits_for" not in asked[0]["sql"]
    signal("approved:1", "yes")
    harness.run_until_idle()
    assert [now_of(task).outcome.result for task in waiting] == ["yes", "yes"]


def test_the_first_signal_of_a_name_wins(harness):
    assert [signal("x", 1), signal("x", 2)] == [True, False]
    task = Task.objects.enqueue(tasks.approval, ["x"])
    harness.run_due()
    assert now_of(task).outcome.result == 1


def test_who_waits_too_long_goes_on_without(harness):
    task = Task.objects.enqueue(tasks.approval, ["x", 3600])
    harness.run_due()
    harness.advance(seconds=3599)
    taskqueue.reschedule([task.pk])
    harness.run_due()
    assert now_of(task).status == "PENDING", "a look in between does not begin the hour anew"
    harness.advance(seconds=2)
    harness.run_due()
    assert now_of(task).outcome.result == "too late"


def test_a_negative_timeout_is_over_at_once(harness):
    task = Task.objects.enqueue(tasks.approval, ["x", -1])
    harness.run_due()
    assert (now_of(task).attempts, now_of(task).outcome.result) == (1, "too late")


def test_a_negative_sleep_is_over_at_once(harness):
    task = Task.objects.enqueue(tasks.nap, [-5])
    harness.run_due()
    assert (now_of(task).attempts, now_of(task).outcome.result) == (1, "rested")


def test_what_was_decided_stays_decided(harness):
    """A signal that comes after the timeout changes nothing for a later attempt."""
    task = Task.objects.enqueue(tasks.approval, ["x", 1])
    harness.run_until_idle()
    signal("x", "yes")
    assert Step.objects.get(task_id=task.pk, name="x").result is None
    again = now_of(task).retry(resume=True)
    harness.run_due()
    assert now_of(again).outcome.result == "yes", "but a retry waits anew"


def test_many_tasks_hear_one_signal(harness):
    waiting = [Task.objects.enqueue(tasks.approval, ["go"]) for _ in range(3)]
    harness.run_due()
    signal("go", "went")
    harness.run_due()
    assert [now_of(task).outcome.result for task in waiting] == ["went"] * 3


@pytest.mark.parametrize("name", ["", "x" * 201, 7, "a\x00b"])
def test_the_name_of_a_signal_is_a_short_text(database, name):
    with pytest.raises(InvalidCall):
        signal(name)


def test_a_payload_is_canonical_and_bounded(database, configure):
    configure(MAX_ARGS_SIZE=1024)
    for payload in (object(), "x" * 1024):
        with pytest.raises(InvalidPayload, match="The payload of signal 'x'"):
            signal("x", payload)
    assert not Signal.objects.exists()


def test_old_signals_are_forgotten(database, travel):
    signal("x")
    travel(91 * 86400)
    signal("y")
    assert taskqueue.forget_signals() == 1
    assert Signal.objects.get().name == "y"


def test_a_signal_belongs_to_the_callers_transaction(committed):
    with transaction.atomic(committed):
        signal("x")
        transaction.set_rollback(True, using=committed)
    assert not Signal.objects.exists()


@pytest.mark.parametrize("seconds", [None, 60])
def test_the_longest_name_of_a_signal_can_be_waited_for_with_and_without_a_timeout(harness, seconds):
    task = Task.objects.enqueue(tasks.approval, ["x" * 200, seconds])
    harness.run_due()
    assert now_of(task).waits_for == f"signal:{'x' * 200}"
