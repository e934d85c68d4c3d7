"""Children that follow others which crashed: started at once where work gets done, and careful only for a while."""

from __future__ import annotations

import os
import signal

import pytest

from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import claim
from django_tasks_retry.worker.board import Board
from django_tasks_retry.worker.channel import channel_pair
from django_tasks_retry.worker.fork import ChildProcess
from django_tasks_retry.worker.nursery import Nursery
from django_tasks_retry.worker.options import WorkerOptions

from . import tasks
from .harness import wait_for, wait_until_finished


@pytest.fixture
def nursery() -> Nursery:
    return Nursery("supervisor", WorkerOptions(), lambda: None)


def crash(nursery: Nursery, board: Board) -> None:
    ours, theirs = channel_pair()
    nursery.judge(ChildProcess(0, "supervisor/1", ours, board), signal.SIGKILL)
    for end in (ours, theirs):
        end.close()


def busy_board() -> Board:
    Task.objects.enqueue(tasks.canary)
    [lease] = claim("supervisor/1")
    board = Board(1)
    board.claimed(lease, now=0.0)
    board.settled(lease)
    return board


def test_children_that_get_nothing_done_are_replaced_less_and_less_often(nursery):
    pauses = []
    for _ in range(8):
        crash(nursery, Board(1))
        pauses.append(nursery.pause())
    assert pauses[0] == 0.0
    assert pauses == sorted(pauses)
    assert pauses[-1] == 1.0


def test_a_child_that_got_work_done_is_replaced_at_once(database, nursery):
    for board in (Board(1), Board(1), Board(1), busy_board()):
        crash(nursery, board)
    assert nursery.pause() == 0.0


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
