from __future__ import annotations

import logging
import sys
from contextlib import ExitStack, contextmanager

import pytest

from django_tasks_retry import bridge
from django_tasks_retry.backend import RetryBackend
from django_tasks_retry.compat import (
    CORE_HAS_TASKS,
    TaskResultStatus,
    signals,
    task_enqueued,
    task_finished,
    task_started,
)
from tests import tasks as plain
from tests.backend import samples

LOGGER = "django.tasks" if CORE_HAS_TASKS else "django_tasks"
SIGNALS = {"enqueued": task_enqueued, "started": task_started, "finished": task_finished}


@contextmanager
def connected(signal, receiver):
    signal.connect(receiver)
    try:
        yield
    finally:
        signal.disconnect(receiver)


@pytest.fixture
def heard():
    """(signal, sender, status, the exception being handled) of each signal, as it was sent."""
    told = []

    def listener(name):
        def receive(sender, task_result, **_):
            told.append((name, sender, task_result.status, sys.exc_info()[0]))

        return receive

    listeners = {name: listener(name) for name in SIGNALS}
    with ExitStack() as stack:
        for name, signal in SIGNALS.items():
            stack.enter_context(connected(signal, listeners[name]))
        yield told


def test_the_backend_class_sends_one_signal_per_step(database, tasks, heard):
    plain.add.enqueue(1, 2)
    tasks.run_due()
    assert heard == [
        ("enqueued", RetryBackend, TaskResultStatus.READY, None),
        ("started", RetryBackend, TaskResultStatus.RUNNING, None),
        ("finished", RetryBackend, TaskResultStatus.SUCCESSFUL, None),
    ]


def test_a_retried_task_finishes_once_and_within_its_exception(database, tasks, heard, seen):
    plain.explode.enqueue()
    tasks.run_until_idle()
    assert [name for name, *_ in heard] == ["enqueued", *["started"] * 5, "finished"]
    assert heard[-1] == ("finished", RetryBackend, TaskResultStatus.FAILED, ValueError)


def test_the_finished_result_of_the_signal_equals_the_stored_one(database, tasks, seen):
    finished = []

    def receive(task_result, **_):
        finished.append(task_result)

    with connected(task_finished, receive):
        for task, args in ((plain.add, [1, 2]), (samples.fail_twice, ["x"]), (samples.abort, [])):
            result = task.enqueue(*args)
            tasks.run_until_idle()
            assert finished.pop() == task.get_result(result.id)


def test_the_log_carries_the_traceback(database, tasks, caplog):
    with caplog.at_level(logging.ERROR, LOGGER):
        samples.abort.enqueue()
        tasks.run_due()
    [record] = [record for record in caplog.records if record.name == LOGGER]
    assert record.exc_info[0].__name__ == "Abort"


def test_a_receiver_in_place_of_the_frameworks_own_is_heard(database, tasks, caplog):
    finished = []

    def receive(task_result, **_):
        finished.append(task_result.status)

    task_finished.disconnect(signals.log_task_finished)
    try:
        with caplog.at_level(logging.CRITICAL, LOGGER), connected(task_finished, receive):
            plain.add.enqueue(1, 2)
            tasks.run_due()
    finally:
        task_finished.connect(signals.log_task_finished)
    assert finished == [TaskResultStatus.SUCCESSFUL]


def test_where_nobody_hears_nothing_is_made(database, tasks, caplog, monkeypatch):
    made = []
    make = bridge.running_result
    monkeypatch.setattr(bridge, "running_result", lambda *args, **how: made.append(args) or make(*args, **how))
    for level, expected in ((logging.WARNING, 0), (logging.INFO, 1)):
        with caplog.at_level(level, LOGGER):
            plain.add.enqueue(1, 2)
            assert [run.status for run in tasks.run_due()] == [TaskResultStatus.SUCCESSFUL]
        assert len(made) == expected
