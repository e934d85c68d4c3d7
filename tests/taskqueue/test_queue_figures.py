"""How queues stand, from values that were read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django_tasks_retry import clock, taskqueue
from django_tasks_retry.models import BacklogStat, Queue, Task, Worker
from django_tasks_retry.taskqueue import statistics
from django_tasks_retry.taskqueue.statistics.summaries import Depth, QueueFigures, queue_figures
from django_tasks_retry.worker.shared.database import DatabaseCaller
from django_tasks_retry.worker.supervisor.maintenance.problems import Problems
from tests import tasks

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


def test_the_backlog_of_a_minute_is_kept_for_a_day(database, travel):
    statistics.add_backlog([("emails", 7, 30.0), ("bulk", 20_000_000_000, 5.0)])
    statistics.add_backlog([("emails", 9, 31.0)])  # another worker, which believes to be the elected one
    begin = clock.now(database) - timedelta(hours=1)
    assert [(each.queue, each.due, each.oldest) for each in statistics.backlogs_since(begin, database)] == [
        ("", 2**31 - 1, 30.0), ("bulk", 2**31 - 1, 5.0), ("emails", 7, 30.0),
    ]  # fmt: skip
    travel(26 * 3600)
    taskqueue.forget_stats()
    assert not BacklogStat.objects.exists()


def test_only_the_longest_backlogs_are_kept_by_name(database):
    statistics.add_backlog([(f"q{n:03}", n, 0.0) for n in range(200)])
    assert BacklogStat.objects.count() == 51
    assert BacklogStat.objects.get(queue="").due == sum(range(200))
    assert BacklogStat.objects.filter(queue="q199").exists()


def test_the_elected_worker_keeps_the_backlog_of_each_minute(database):
    Task.objects.enqueue_many([{"func": tasks.noop, "queue": "emails"} for _ in range(3)])
    problems = Problems("default", DatabaseCaller(database, 15.0))
    problems.is_elected = True
    problems.run()
    assert BacklogStat.objects.get(queue="emails").due == BacklogStat.objects.get(queue="").due == 3
