"""A task's process is an ordinary one: what it forks, leaves in its session or registers behaves as elsewhere."""

from __future__ import annotations

import signal

import pytest
from django.db import connections

from django_tasks_retry.models import Task

from . import tasks
from .harness import wait_until_finished


@pytest.mark.fault("F121")
def test_processes_that_a_task_forks_heed_signals(start, effects):
    pools = [Task.objects.enqueue(tasks.use_a_pool) for _ in range(6)]
    ended = Task.objects.enqueue(tasks.terminate_a_process)
    interrupted = Task.objects.enqueue(tasks.interrupt_a_process)
    assert start("--drain", "--threads", "3").exit_code(60) == 0
    assert [wait_until_finished(task).outcome.result for task in pools] == [285] * 6
    assert wait_until_finished(ended).outcome.result == -signal.SIGTERM
    assert wait_until_finished(interrupted).outcome.result in (1, -signal.SIGINT)


@pytest.mark.fault("F121")
def test_a_process_forked_in_a_transaction_has_a_session_of_its_own(start, effects):
    forked = Task.objects.enqueue(tasks.fork_in_a_transaction)
    assert start("--drain").exit_code() == 0
    assert wait_until_finished(forked).outcome.result == 0
    assert effects.count("used in a process of its own") == 1


@pytest.mark.fault("F122")
@pytest.mark.parametrize("what", tasks.LEFT_IN_SESSION)
def test_what_a_task_leaves_in_its_session_ends_with_it_seen_by_django_or_not(start, effects, committed, what):
    if connections[committed].vendor != "postgresql":
        pytest.skip("a session on SQLite is closed after each use")
    left = Task.objects.enqueue(tasks.leave_in_session, [what])
    start("--threads", "1")
    assert wait_until_finished(left).status == "SUCCESS"
    seen = wait_until_finished(Task.objects.enqueue(tasks.look_at_session))
    assert (seen.status, seen.last_error) == ("SUCCESS", None)
    assert seen.outcome.result == ["0", 0, True]


@pytest.mark.fault("F123")
def test_a_child_sends_its_own_signals_and_runs_its_own_exit_hooks(start, effects):
    Task.objects.enqueue(tasks.canary)
    assert start("--drain", variables={"TELL_PROCESSES": "1"}).exit_code() == 0
    assert effects.lines() == ["child started", "canary", "child ending", "ran at exit"]
