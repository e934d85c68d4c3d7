"""However a task ends, and whichever process records it: one log line, one count in the statistics, one signal."""

from __future__ import annotations

import logging
import os
import re
import signal

import pytest
from django.db.models import Sum

from django_tasks_retry.models import Task, TaskStat, TaskTotal
from django_tasks_retry.taskqueue import Completed, Failed, finish
from django_tasks_retry.worker.shared.outcomes import AttemptResult, Counts, OutcomePublisher
from tests.steps import claim_one, enqueue_unchecked, now_of

from . import tasks
from .harness import WorkerProcess, wait_for, wait_until_finished

TELL = {"variables": {"TELL_SIGNALS": "1"}}
WAYS = {
    "returns": (tasks.canary, []),
    "returns_as_coroutine": (tasks.await_once, []),
    "raises": (tasks.fail_twice, []),
    "exits_its_thread": (tasks.system_exit, []),
    "returns_what_cannot_be_stored": (tasks.return_object, []),
    "is_called_with_bad_arguments": (tasks.canary, [1, 2, 3, 4]),
    "yields_to_its_timeout": (tasks.loop_for_ever, []),
    "does_not_yield_to_its_timeout": (tasks.hang_in_c, []),
    "blocks_the_event_loop": (tasks.block_the_loop, []),
    "ends_its_process": (tasks.exit_at_once, []),
    "commits_with_its_completion": (tasks.write_atomically, ["done"]),
}


def counted() -> dict[str, int]:
    """The same in the statistics of the minute and in the totals."""
    [stats, totals] = [
        model.objects.aggregate(completed=Sum("completed"), retried=Sum("retried"), failed=Sum("failed"))
        for model in (TaskStat, TaskTotal)
    ]
    assert stats == totals
    return stats


def assert_told_once(task: Task, worker: WorkerProcess, effects) -> None:
    succeeded = task.status == "SUCCESS"
    name = task.func_path.rpartition(".")[2]
    assert counted() == {"completed": int(succeeded), "retried": 0, "failed": int(not succeeded)}
    sent = f"signal task_finished {name} {'SUCCESSFUL' if succeeded else 'FAILED'}"
    assert len([line for line in effects.lines() if line.startswith(sent)]) == 1
    word = "done" if succeeded else "failed"
    line = rf"{word:<9} {name} {str(task.pk)[:18]} queue=default attempt=1/1 · wait=\S+ run=\S+"
    assert len(re.findall(line, worker.output)) == 1


@pytest.mark.parametrize("way", WAYS)
def test_log_statistics_and_signal_agree_with_the_row(start, effects, way):
    function, args = WAYS[way]
    task = enqueue_unchecked(function, args, max_attempts=1)
    worker = start("--drain", timeout_grace=0.3, **TELL)
    assert worker.exit_code() == 0
    assert_told_once(wait_until_finished(task), worker, effects)


def test_so_they_do_where_the_process_is_killed(start, effects):
    task = Task.objects.enqueue(tasks.wait_at, ["never"], max_attempts=1)
    worker = start(**TELL)
    effects.wait_for("begin never")
    os.kill(worker.children()[0], signal.SIGKILL)
    task = wait_until_finished(task)
    wait_for(lambda: effects.count("signal task_finished wait_at FAILED True"), "the signal")
    worker.signal(signal.SIGTERM)
    assert worker.exit_code() == 0
    assert_told_once(task, worker, effects)


def test_so_they_do_where_another_worker_recovers_the_lease(start, effects):
    task = Task.objects.enqueue(tasks.wait_at, ["never"], max_attempts=1)
    lost = start(lease=1.0)
    effects.wait_for("begin never")
    lost.signal_all(signal.SIGKILL)
    worker = start(lease=1.0, **TELL)
    task = wait_until_finished(task)
    assert task.outcome.error["code"] == "LEASE_LOST"
    wait_for(lambda: effects.count("signal task_finished wait_at FAILED True"), "the signal")
    worker.signal(signal.SIGTERM)
    assert worker.exit_code() == 0
    assert_told_once(task, worker, effects)


def test_a_report_that_comes_too_late_is_not_counted_beside_the_one_that_ended_the_lease(database, caplog):
    task = enqueue_unchecked(tasks.canary)
    lease = claim_one("worker")
    counts = Counts()
    publisher = OutcomePublisher(counts.note, lambda result: None)
    with caplog.at_level(logging.INFO, "django_tasks_retry.attempts"):
        for report in (Failed(lease, ValueError("stuck")), Completed(lease, None)):
            [receipt] = finish([report])
            publisher.publish(AttemptResult(receipt))
    [stat] = counts.take()
    assert (stat.attempts, stat.retried, stat.dropped) == (1, 1, 1)
    assert [line.facts["event"] for line in caplog.records] == ["retry", "dropped"]
    assert now_of(task).status == "PENDING"


def test_what_a_child_has_counted_is_not_lost_when_it_dies(start, effects):
    done = [Task.objects.enqueue(tasks.canary) for _ in range(5)]
    worker = start()
    for task in done:
        wait_until_finished(task)
    worker.wait_for_line(rf"done +canary {str(done[-1].pk)[:18]}")
    os.kill(worker.children()[0], signal.SIGKILL)
    worker.wait_for_line("killed by SIGKILL")
    worker.signal(signal.SIGTERM)
    assert worker.exit_code() == 0
    assert counted()["completed"] == 5
    assert "5 done" in worker.output
