"""A task's process is an ordinary one: what it forks, leaves in its session or registers behaves as elsewhere."""

from __future__ import annotations

import errno
import os
import signal
from contextlib import suppress

import pytest
from django.db import connections

from django_tasks_retry.compat import framework_logger
from django_tasks_retry.models import Task
from django_tasks_retry.worker.child import process

from . import tasks
from .harness import wait_until_finished


@pytest.mark.fault("signals_and_sockets_in_forked_processes")
def test_processes_that_a_task_forks_heed_signals(start, effects):
    pools = [Task.objects.enqueue(tasks.use_a_pool) for _ in range(6)]
    ended = Task.objects.enqueue(tasks.terminate_a_process)
    interrupted = Task.objects.enqueue(tasks.interrupt_a_process)
    assert start("--drain", "--threads", "3").exit_code(60) == 0
    assert [wait_until_finished(task).outcome.result for task in pools] == [285] * 6
    assert wait_until_finished(ended).outcome.result == -signal.SIGTERM
    assert wait_until_finished(interrupted).outcome.result in (1, -signal.SIGINT)


@pytest.mark.fault("signals_and_sockets_in_forked_processes")
def test_a_process_forked_in_a_transaction_has_a_session_of_its_own(start, effects):
    forked = Task.objects.enqueue(tasks.fork_in_a_transaction)
    assert start("--drain").exit_code() == 0
    assert wait_until_finished(forked).outcome.result == 0
    assert effects.count("used in a process of its own") == 1


@pytest.mark.fault("signals_and_sockets_in_forked_processes")
def test_a_process_that_may_open_no_file_heeds_signals_too(monkeypatch):
    def no_file_left():
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(process, "let_go_of_sessions", no_file_left)
    reading, writing = os.pipe()
    if not (child := os.fork()):
        process.block_signals()
        with suppress(OSError):
            process.become_ordinary()
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        os.write(writing, f"{len(blocked)} {signal.getsignal(signal.SIGTERM)!r}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with os.fdopen(reading) as told:
        assert told.read() == f"0 {signal.SIG_DFL!r}"


@pytest.mark.fault("sessions_used_behind_djangos_back")
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


@pytest.mark.fault("child_with_data_to_flush")
def test_a_child_calls_its_middleware_and_runs_its_own_exit_hooks(start, effects):
    Task.objects.enqueue(tasks.canary)
    assert start("--drain", middleware=["tests.worker.marking.Ending"]).exit_code() == 0
    assert effects.lines() == ["child started", "canary", "child ending", "ran at exit"]


@pytest.mark.fault("telemetry_of_the_last_moments")
def test_hooks_that_do_not_end_hold_a_child_up_for_a_few_seconds_only(start, effects):
    Task.objects.enqueue(tasks.canary)
    worker = start("--drain", middleware=["tests.worker.marking.HangingAtExit"])
    assert worker.exit_code() == 0
    assert "its exit hooks took longer than 5 s and were left behind" in worker.output
    assert effects.count("canary") == 1


@pytest.mark.fault("telemetry_of_the_last_moments")
def test_each_final_failure_reaches_sentry_once_and_before_the_process_ends(start, effects):
    Task.objects.enqueue_many([tasks.system_exit, tasks.canary, tasks.fail_twice])
    assert start("--drain", variables={"WORKER_SENTRY": "1"}).exit_code() == 0
    told = [line for line in effects.lines() if line.startswith("sentry")]
    assert told == [f"sentry {framework_logger.name} SystemExit"]


@pytest.mark.fault("state_kept_by_a_connection_wrapper")
@pytest.mark.parametrize("function", [tasks.change_tenant, tasks.achange_tenant], ids=["thread", "coroutine"])
def test_what_a_task_says_to_its_connection_is_not_said_to_the_next(start, effects, committed, function):
    engine = connections[committed].settings_dict["ENGINE"].rpartition(".")[2]
    changed = Task.objects.enqueue_many({"func": function, "args": [name]} for name in ("acme", "umbrella", "acme"))
    variables = {"WORKER_ENGINE": f"tests.worker.stateful.{engine}"}
    worker = start("--drain", "--threads", "1", "--async-slots", "1", variables=variables)
    assert worker.exit_code() == 0
    assert [wait_until_finished(task).outcome.result for task in changed] == ["public"] * 3


@pytest.mark.fault("threads_started_before_the_fork")
def test_threads_of_the_import_are_made_anew_in_each_child_by_middleware(start, effects):
    task = Task.objects.enqueue(tasks.use_workshop, [7])
    assert (
        start("--drain", middleware=["tests.worker.marking.NewWorkshop"], variables={"POOL_AT_IMPORT": "1"}).exit_code()
        == 0
    )
    assert wait_until_finished(task).outcome.result == 49
