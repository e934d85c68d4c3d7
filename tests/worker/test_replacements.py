"""Children that follow others which crashed: started at once where work gets done, and careful only for a while."""

from __future__ import annotations

import os
import signal

import pytest

from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import claim
from django_tasks_retry.worker.options import WorkerOptions
from django_tasks_retry.worker.shared.inflight import InFlightTable
from django_tasks_retry.worker.shared.messages import Leaving, Stop, StopReason, channel_pair, decode, encode
from django_tasks_retry.worker.supervisor.child_process import ChildProcess, Exit
from django_tasks_retry.worker.supervisor.pool import ChildPool

from . import tasks
from .harness import wait_for, wait_until_finished


@pytest.fixture
def pool() -> ChildPool:
    return ChildPool("supervisor", WorkerOptions(), lambda: None)


def crash(pool: ChildPool, inflight: InFlightTable) -> None:
    ours, theirs = channel_pair()
    pool.record_exit(ChildProcess(0, "supervisor/1", ours, ours, inflight), Exit(signal.SIGKILL, peak_memory=0))
    for end in (ours, theirs):
        end.close()


def busy_table() -> InFlightTable:
    Task.objects.enqueue(tasks.canary)
    [lease] = claim("supervisor/1")
    table = InFlightTable(1)
    table.clear(table.claim([lease], now=0.0))
    return table


def test_children_that_get_nothing_done_are_replaced_less_and_less_often(pool):
    pauses = []
    for _ in range(8):
        crash(pool, InFlightTable(1))
        pauses.append(pool.crash_backoff())
    assert pauses[0] == 0.0
    assert pauses == sorted(pauses)
    assert pauses[-1] == 1.0


def test_a_child_that_got_work_done_is_replaced_at_once(database, pool):
    for table in (InFlightTable(1), InFlightTable(1), InFlightTable(1), busy_table()):
        crash(pool, table)
    assert pool.crash_backoff() == 0.0


@pytest.mark.parametrize(("bound", "expected"), [(None, 2), (60, 1)])
def test_where_connections_are_bounded_a_child_ends_before_the_next_one_starts(monkeypatch, bound, expected):
    pool = ChildPool("supervisor", WorkerOptions(max_connections=bound), lambda: None)
    ends = [end for _ in range(2) for end in channel_pair()]
    table = InFlightTable(1)
    monkeypatch.setattr(
        f"{ChildPool.__module__}.start_child", lambda name, *_, **__: ChildProcess(1, name, *ends[:2], table)
    )
    [leaving] = pool.fill()
    leaving.stop_reason = StopReason.MEMORY
    pool.fill()
    assert len(pool.children) == expected
    pool.reap({leaving.pid: Exit(0, peak_memory=0)})
    pool.fill()
    assert len(pool.working) == 1
    for end in ends:
        end.close()


def test_a_long_task_after_a_crash_does_not_keep_the_other_slots_empty(start, effects):
    worker = start("--threads", "2")
    worker.wait_until_up()
    [killed] = worker.children()
    os.kill(killed, signal.SIGKILL)
    wait_for(lambda: set(worker.children()) - {killed}, "another child")
    long = [Task.objects.enqueue(tasks.wait_at, [name]) for name in "ab"]
    for name in "ab":
        effects.wait_for(f"begin {name}")
    for name in "ab":
        tasks.gate(name).touch()
    for task in long:
        assert wait_until_finished(task).status == "SUCCESS"


@pytest.mark.parametrize("reason", StopReason)
@pytest.mark.parametrize("message", [Stop, Leaving])
def test_both_processes_know_a_reason_to_stop_as_the_same_value(message, reason):
    received = decode(encode(message(reason)))
    assert received.reason is reason
