"""The same on SQLite: no verb reads tasks that it does not touch."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from django_tasks_retry import taskqueue
from django_tasks_retry.taskqueue.enqueue.backlog import Place, count_pending
from tests import tasks
from tests.plans.explain import query_plans
from tests.router import CurrentDatabase

USING = "default"

pytestmark = pytest.mark.django_db(databases=[USING])


@pytest.fixture(autouse=True)
def on_sqlite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CurrentDatabase, "current", USING)


TASK = "django_tasks_retry_task"
BY_ID = f"sqlite_autoindex_{TASK}_1 (id=?)"


def reads_of_tasks(lines: list[str]) -> set[str]:
    """How the task table is read, in SQLite's words."""
    return {
        line.replace("COVERING ", "").partition(" USING INDEX ")[2] or line
        for line in lines
        if line.startswith(("SCAN", "SEARCH")) and line.split()[1] in {TASK, "t", "head"}
    }


def enqueue(count: int = 3, **options: Any) -> None:
    taskqueue.enqueue_many(taskqueue.EnqueueOptions(tasks.noop, **options) for _ in range(count))


def claim() -> list[taskqueue.Lease]:
    return taskqueue.claim("worker/1", limit=2)


def test_a_claim_hops_from_lane_to_lane_and_reads_one_range_of_each():
    enqueue()
    with query_plans(USING) as lines:
        assert len(claim()) == 2
    assert reads_of_tasks(lines) == {
        "dtr_keyed_due",  # whether tasks with a lane wait: the first entry of the index
        "dtr_lanes",  # the first lane: the first entry of the index
        "dtr_lanes ((queue,priority)>(?,?))",
        "dtr_lanes (queue=? AND priority=? AND lane=? AND eta>? AND eta<?)",
        BY_ID,
    }


@pytest.mark.parametrize("lane", ["", "tenant-7"])
def test_a_backlog_is_counted_by_the_indexes_of_what_waits(lane):
    enqueue(lane=lane)
    with query_plans(USING) as lines:
        assert count_pending(Place("default", "default"), 10, USING) == 3
    assert {line.partition(" (")[2] for line in reads_of_tasks(lines)} == {"queue=?)"}
    assert not any(line.startswith("SCAN django") for line in lines)


def test_reports_find_their_tasks_by_their_ids():
    enqueue()
    leases = claim()
    with query_plans(USING) as lines:
        taskqueue.renew(leases)
        taskqueue.finish([taskqueue.Completed(leases[0]), taskqueue.Failed(leases[1], ValueError())])
    assert reads_of_tasks(lines) == {BY_ID}


@pytest.mark.parametrize(("dead", "range_read"), [(None, "dtr_leases"), ("worker/1", "dtr_leases (locked_by=?)")])
def test_recovering_reads_leases_only(dead, range_read):
    enqueue()
    claim()
    with query_plans(USING) as lines:
        taskqueue.recover(dead=dead, actor="worker")
    assert reads_of_tasks(lines) <= {range_read, BY_ID}
    assert range_read in reads_of_tasks(lines)


def test_a_taken_unique_key_is_found_by_the_key():
    with query_plans(USING) as lines:
        enqueue(unique_key="key")
    assert reads_of_tasks(lines) == {"dtr_unique_key (queue=? AND unique_key=?)"}


def test_pruning_walks_the_primary_key():
    with query_plans(USING) as lines:
        list(taskqueue.prune())
    walk = "SEARCH django_tasks_retry_taskresult USING INDEX sqlite_autoindex_django_tasks_retry_taskresult_1"
    assert lines == [f"{walk} (task_id<?)", f"{walk} (task_id>?)"]


def test_the_sweep_of_what_expired_reads_its_index():
    enqueue(expires=timedelta(hours=1))
    enqueue(deadline=timedelta(hours=1))
    with query_plans(USING) as lines:
        taskqueue.expire()
    assert reads_of_tasks(lines) == {
        "dtr_expiring (expires_at>? AND expires_at<?)", "dtr_deadlines (deadline_at>? AND deadline_at<?)",
    }  # fmt: skip
