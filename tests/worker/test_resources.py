"""Memory, threads and files that run out or are left behind: the attempt pays, or its process, never the queue."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from django_tasks_retry.models import Task

from . import tasks
from .cgroup import little_memory
from .harness import event_of, story, wait_for, wait_until_finished

GIGABYTE = 1024**3


def limited(which: int, amount: int):
    """For `start`: the worker and its children may have so much, and no more."""
    return {"preexec_fn": lambda: resource.setrlimit(which, (amount, amount))}


@pytest.mark.fault("out_of_memory")
def test_memory_that_the_kernel_refuses_is_a_failed_attempt(start, effects):
    task = Task.objects.enqueue(tasks.want_memory)
    worker = start(popen=limited(resource.RLIMIT_AS, 3 * GIGABYTE))
    task = wait_until_finished(task)
    assert (task.status, effects.count("want"), story(task).count("failed")) == ("FAILED", 2, 2)
    assert (task.outcome.error["code"], task.outcome.error["exception"]) == ("EXCEPTION", "builtins.MemoryError")
    [child] = worker.children()
    assert wait_until_finished(Task.objects.enqueue(tasks.say_pid)).outcome.result == child


@pytest.mark.fault("out_of_memory")
@pytest.mark.skipif(not Path("/proc/self/oom_score_adj").exists(), reason="only Linux has this score")
def test_the_kernel_chooses_a_child_before_its_supervisor(start):
    worker = start()
    wait_until_finished(Task.objects.enqueue(tasks.canary))
    [child] = worker.children()
    scores = [int(Path(f"/proc/{pid}/oom_score_adj").read_text()) for pid in (worker.process.pid, child)]
    assert scores[1] == min(1000, scores[0] + 300)


@pytest.fixture
def small_group() -> Iterator[Path]:
    with little_memory(megabytes=200) as group:
        if group is None:
            pytest.skip("only root may make a control group")
        yield group


@pytest.fixture
def start_in_group(small_group, start):
    """`start` comes last, so that its workers end before the group does."""
    return lambda *arguments: start(*arguments, popen={"preexec_fn": lambda: join(small_group)})


def join(group: Path) -> None:
    (group / "cgroup.procs").write_text(str(os.getpid()))


@pytest.mark.fault("out_of_memory")
def test_a_process_that_the_kernel_kills_for_its_memory_is_a_crash(start_in_group, effects):
    task = Task.objects.enqueue(tasks.fill_memory)
    worker = start_in_group("--threads", "1")
    task = wait_until_finished(task, 60)
    assert (task.status, effects.count("fill"), story(task).count("lease_lost")) == ("FAILED", 3, 2)
    assert task.outcome.error["code"] == "CRASHED"
    assert event_of(task, "lease_lost").data["cause"] == "its process was killed by SIGKILL"
    assert wait_until_finished(Task.objects.enqueue(tasks.canary)).status == "SUCCESS"
    assert worker.process.poll() is None


@pytest.mark.fault("leaks")
def test_threads_that_tasks_leave_behind_keep_no_process_from_ending(start, effects):
    worker = start("--threads", "2")
    old = wait_until_finished(Task.objects.enqueue(tasks.leave_threads)).outcome.result
    worker.signal(signal.SIGHUP)
    wait_for(lambda: old not in worker.children(), "the end of the process with the threads")
    new = wait_until_finished(Task.objects.enqueue(tasks.leave_threads)).outcome.result
    assert (new != old, new in worker.children()) == (True, True)
    worker.signal(signal.SIGTERM)
    assert worker.exit_code() == 0


@pytest.mark.fault("leaks")
def test_a_worker_that_ends_by_itself_waits_for_no_thread_of_a_task(start, effects):
    enqueued = Task.objects.enqueue_many([tasks.leave_threads] * 3)
    assert start("--max-tasks", "2").exit_code() == 0
    assert start("--drain").exit_code() == 0
    assert [wait_until_finished(task).status for task in enqueued] == ["SUCCESS"] * 3


@pytest.mark.fault("leaks")
def test_files_that_a_task_leaves_open_end_with_its_process(start, effects):
    worker = start("--threads", "1", popen=limited(resource.RLIMIT_NOFILE, 128))
    left = Task.objects.enqueue(tasks.leave_files)
    assert wait_until_finished(left).outcome.result > 50
    [old] = worker.children()
    worker.signal(signal.SIGHUP)
    wait_for(lambda: old not in worker.children(), "the end of the process with the files")
    assert wait_until_finished(Task.objects.enqueue(tasks.canary)).status == "SUCCESS"
    worker.signal(signal.SIGTERM)
    assert worker.exit_code() == 0
