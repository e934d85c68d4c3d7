"""Workers and lanes: limits hold over processes and threads, and nobody stands idle beside work that may start."""

from __future__ import annotations

import pytest
from django.db import connections

from django_tasks_retry.models import Task
from django_tasks_retry.verify.audit import verify
from django_tasks_retry.verify.lanes import Allowed

from . import tasks
from .harness import wait_until_finished


def test_a_limit_holds_over_all_processes_and_threads_and_others_go_on(start, effects, committed):
    rows = Task.objects.enqueue_many(
        [{"func": tasks.canary, "lane": "stripe"} for _ in range(20)]
        + [{"func": tasks.canary, "lane": f"tenant-{n % 5}"} for n in range(20)]
        + [{"func": tasks.canary} for _ in range(20)]
    )
    start("--processes", "2", "--threads", "4", lanes={"stripe": {"concurrency": 2}})
    for row in rows:
        wait_until_finished(row)
    *_, audit = verify(committed, 60, limits=lambda lane: Allowed(2 if lane == "stripe" else None, None, 0))
    assert audit.breaches == []
    assert len(effects.lines()) == 60


def test_a_worker_starts_the_next_when_the_window_opens_without_being_told(start, effects, committed):
    rows = Task.objects.enqueue_many([{"func": tasks.canary, "lane": "stripe"} for _ in range(4)])
    start("--poll", "60s", lanes={"stripe": {"rate": (2, 0.5)}})
    for row in rows:
        wait_until_finished(row)
    *_, audit = verify(committed, 60, limits=lambda lane: Allowed(None, 2, 0.5))
    assert audit.breaches == []


CLAIMED_WITH_AN_END = """
SELECT count(*) FROM django_tasks_retry_taskevent AS begun
WHERE begun.kind = 'task.running' AND begun.task_id = ANY (%s)
    AND begun.xmin IN (SELECT r.xmin FROM django_tasks_retry_taskresult AS r)
"""


@pytest.mark.parametrize("on", ["postgresql"], indirect=True)
def test_the_next_of_a_full_lane_is_claimed_by_the_commit_that_records_the_one_before(start, effects, committed):
    rows = Task.objects.enqueue_many([{"func": tasks.canary, "lane": "stripe"} for _ in range(40)])
    start("--threads", "4", lanes={"stripe": {"concurrency": 1}})
    for row in rows:
        wait_until_finished(row)
    with connections[committed].cursor() as cursor:
        cursor.execute(CLAIMED_WITH_AN_END, [[row.pk for row in rows]])
        [with_an_end] = cursor.fetchone()
    # Now and then a refresh comes between two tasks: four times a second.
    assert with_an_end >= len(rows) / 4
    *_, audit = verify(committed, 60, limits=lambda _: Allowed(1, None, 0))
    assert audit.breaches == []
