"""How queues stand, from values that were read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django_tasks_retry.models import Queue, Worker
from django_tasks_retry.taskqueue.statistics.summaries import Depth, QueueFigures, queue_figures

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def depth(queue: str, priority: int, waits: float, due: int) -> Depth:
    return Depth(queue, priority, NOW - timedelta(seconds=waits), (), "default", due)


def test_the_lanes_and_workers_of_a_queue_are_summed_up():
    lanes = [depth("emails", 0, 30, 2), depth("emails", 9, 5, 1), depth("emails", 1, 999, 0), depth("bulk", 0, 7, 4)]
    workers = [Worker(queues=["e*"], exclude=[], slots=8), Worker(queues=["*"], exclude=["emails"], slots=2)]
    paused = {"bulk": Queue(name="bulk")}
    emails, bulk, quiet = queue_figures(
        ["emails", "bulk", "quiet"], lanes, workers, NOW, paused=paused, running={"emails": 3}
    )
    assert emails == QueueFigures("emails", 3, 30.0, 3, None, 1, 8)
    assert (bulk.due, bulk.oldest_seconds, bulk.is_paused, bulk.slots) == (4, 7.0, True, 2)
    assert quiet == QueueFigures("quiet", workers=1, slots=2)


def test_a_task_that_became_due_after_the_clock_was_read_has_not_waited():
    (figures,) = queue_figures(["emails"], [depth("emails", 0, -1, 1)], [], NOW, paused={})
    assert figures.oldest_seconds == 0.0
