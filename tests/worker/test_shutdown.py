"""Signals: the first asks, the second insists, SIGHUP loads new code."""

from __future__ import annotations

import os
import re
import signal
import time

import pytest

from django_tasks_retry.models import Task

from . import tasks
from .harness import ROOT, event_of, story, wait_for, wait_for_status, wait_until_finished


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_worker_stops_at_the_first_signal(start, effects, number):
    worker = start()
    worker.wait_until_up()
    worker.signal(number)
    assert worker.exit_code() == 0
    assert f"{number.name}: stopping · 0 running" in worker.output
    assert worker.row.stopped_at is not None


def test_a_worker_under_nohup_ignores_sighup_and_no_other_signal(start, effects):
    ignored = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
    worker = start(popen={"preexec_fn": lambda: [signal.signal(number, signal.SIG_IGN) for number in ignored]})
    worker.wait_until_up()
    worker.signal(signal.SIGHUP)
    worker.signal(signal.SIGINT)
    assert worker.exit_code() == 0
    assert "SIGINT: stopping" in worker.output
    assert "SIGHUP" not in worker.output


@pytest.mark.fault("asked_to_stop")
def test_a_running_task_finishes_before_the_worker_stops(start, effects):
    sync, coroutine = Task.objects.enqueue(tasks.wait_at, ["a"]), Task.objects.enqueue(tasks.await_at, ["b"])
    worker = start()
    effects.wait_for("begin a")
    effects.wait_for("begin b")
    worker.signal(signal.SIGTERM)
    worker.wait_for_line("SIGTERM: stopping · 2 running")
    late = wait_for(enqueue_for_nobody, "a task that is left alone")
    tasks.gate("a").touch()
    tasks.gate("b").touch()
    assert worker.exit_code() == 0
    assert [wait_until_finished(task).status for task in (sync, coroutine)] == ["SUCCESS", "SUCCESS"]
    assert story(late) == []
    assert re.search(r"stopped · \d+ done, 0 retried, 0 failed, 0 released", worker.output)


def enqueue_for_nobody() -> Task | None:
    """Return a task that several polls did not claim. Children claim until the message to stop has reached them."""
    task = Task.objects.enqueue(tasks.canary)
    time.sleep(0.5)
    return None if story(task) else task


@pytest.mark.fault("asked_to_stop")
def test_a_stuck_task_is_handed_back_after_the_grace(start, effects):
    stuck, coroutine = Task.objects.enqueue(tasks.hang_in_c, timeout=60), Task.objects.enqueue(tasks.await_at, ["b"])
    worker = start("--grace", "300ms")
    effects.wait_for("hang")
    effects.wait_for("begin b")
    worker.signal(signal.SIGTERM)
    assert worker.exit_code() == 0
    for task in (stuck, coroutine):
        task = wait_for_status(task, "PENDING")
        assert (task.attempts, task.refunds) == (1, 1)
        assert story(task) == ["running", "released"]
        assert event_of(task, "released").data["reason"] == "the worker shut down"
        assert len(re.findall(rf"released .*{str(task.pk)[:18]}.* the worker shut down", worker.output)) == 1
    assert "0 done, 0 retried, 0 failed, 2 released" in worker.output


@pytest.mark.fault("told_to_stop_at_once")
@pytest.mark.parametrize("first", [signal.SIGTERM, None], ids=["second", "quit"])
def test_a_second_signal_hands_back_at_once_and_so_does_sigquit(start, effects, first):
    stuck = Task.objects.enqueue(tasks.hang_in_c, timeout=60)
    worker = start("--grace", "10m")
    effects.wait_for("hang")
    if first:
        worker.signal(first)
        worker.wait_for_line("SIGTERM: stopping")
    worker.signal(first or signal.SIGQUIT)
    assert worker.exit_code() == 1
    stuck = wait_for_status(stuck, "PENDING")
    assert stuck.refunds == 1


@pytest.mark.fault("hang_up")
def test_sighup_loads_new_code_once_running_tasks_have_ended(start, effects, tmp_path):
    code = tmp_path / "changing_module.py"
    code.write_text("")
    task = Task.objects.enqueue(tasks.wait_at, ["a"])
    worker = start(variables={"EXTRA_MODULE": "changing_module", "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"})
    effects.wait_for("begin a")
    code.write_text("def broken(:")
    worker.signal(signal.SIGHUP)
    worker.wait_for_line("the new code cannot be loaded; the worker keeps the old")
    assert wait_until_finished(Task.objects.enqueue(tasks.canary)).status == "SUCCESS"
    code.write_text("import logging; logging.getLogger('django_tasks_retry').error('the new code')")
    worker.signal(signal.SIGHUP)
    worker.wait_for_line("SIGHUP: stopping · 1 running")
    tasks.gate("a").touch()
    assert wait_until_finished(task).status == "SUCCESS"
    worker.wait_for_line("the new code$")
    assert wait_until_finished(Task.objects.enqueue(tasks.canary)).status == "SUCCESS"
    assert effects.count("begin a") == 1
    worker.signal(signal.SIGTERM)
    assert worker.exit_code() == 0
