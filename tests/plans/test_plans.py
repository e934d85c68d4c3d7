"""No verb reads more of the tables than it touches, whatever stands in them and whatever the planner believes."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connections

from django_tasks_retry import taskqueue
from django_tasks_retry.clock import Now
from django_tasks_retry.models import Schedule, Task
from django_tasks_retry.taskqueue.statistics.snapshot import take_snapshot
from django_tasks_retry.taskqueue.statistics.summaries import CAP
from tests import tasks
from tests.plans.crowds import DUE, USING, execute, guard
from tests.plans.explain import Plan, explained

pytestmark = [pytest.mark.django_db(databases=["default", USING]), pytest.mark.usefixtures("crowd")]

BATCH = 100
LANES = 3
RESULT = "django_tasks_retry_taskresult"


def claim(limit: int = BATCH) -> list[taskqueue.Lease]:
    return taskqueue.claim("worker/1", limit=limit)


def named(plans: list[Plan], name: str) -> Plan:
    """The plan of the statement in `sql/<name>.sql`."""
    [plan] = [plan for plan in plans if plan.name.lower() == name]
    return plan


def test_looking_for_lanes_reads_one_row_a_lane():
    with explained(USING) as plans:
        claim()
    lanes = named(plans, "lanes")
    assert lanes.indexes() - {"dtr_one_lane"} == {"dtr_lanes", "dtr_keyed_due"}
    assert lanes.rows_read() <= LANES + 1
    assert lanes.buffers() <= 8 * (LANES + 1)


def test_a_claim_reads_what_it_takes_and_no_more():
    with explained(USING) as plans:
        assert len(claim()) == BATCH
    taken = named(plans, "claim")
    assert not taken.walks("django_tasks_retry_task")
    assert "dtr_lanes" in taken.indexes()
    assert taken.finds_by_place()
    assert taken.rows_read() <= 2 * BATCH + LANES, "each task once in its lane and once where it lies"


def test_a_claim_of_nothing_reads_nothing():
    """The empty poll: what is due is of a priority, or a time, that another claim has taken."""
    memory = taskqueue.ClaimMemory(["emails"])
    with explained(USING) as plans:
        assert taskqueue.claim("worker/1", limit=BATCH, memory=memory) == []
    assert sum(plan.rows_read() for plan in plans) <= LANES + 1


def test_a_claim_larger_than_a_lane_takes_the_rest_from_the_next():
    with explained(USING) as plans:
        leases = claim(limit=2 * DUE)
    assert len(leases) >= DUE
    assert not named(plans, "claim").walks("django_tasks_retry_task")
    assert named(plans, "claim").rows_read() <= 2 * len(leases) + LANES


@pytest.mark.fault("stale_statistics")
@pytest.mark.parametrize("verb", ["complete", "renew"])
def test_a_report_finds_its_tasks_by_their_ids_alone(verb):
    leases = claim()
    with explained(USING) as plans:
        if verb == "complete":
            taskqueue.finish([taskqueue.Completed(lease) for lease in leases])
        else:
            taskqueue.renew(leases)
    fenced = named(plans, verb)
    assert fenced.indexes() == {"django_tasks_retry_task_pkey"}
    assert fenced.finds_by_place()
    assert not fenced.walks("django_tasks_retry_task")
    assert fenced.rows_read() == 2 * BATCH  # once to lock it in order, once to write


def test_the_guard_finds_a_result_by_its_task_whatever_was_planned_earlier():
    """Its plan was made by the first report, when there were no results or few."""
    before = walks_through_results()
    taskqueue.finish([taskqueue.Completed(lease) for lease in claim(limit=1)])
    taskqueue.finish([taskqueue.Completed(lease) for lease in claim()])
    assert walks_through_results() == before


def walks_through_results() -> int:
    with connections[USING].cursor() as cursor:
        cursor.execute("SELECT seq_scan FROM pg_stat_xact_user_tables WHERE relname = %s", [RESULT])
        return int(cursor.fetchone()[0])


def test_a_report_of_repeating_tasks_finds_them_by_their_ids():
    taskqueue.enqueue_many(taskqueue.EnqueueOptions(tasks.noop, interval=60, priority=99) for _ in range(BATCH))
    leases = claim()
    with explained(USING) as plans:
        taskqueue.finish([taskqueue.Completed(lease) for lease in leases])
    fenced = named(plans, "finish repeating")
    assert fenced.indexes() == {"django_tasks_retry_task_pkey"}
    assert not fenced.walks("django_tasks_retry_task")
    assert fenced.rows_read() == 3 * BATCH  # and once more to copy it


@pytest.mark.parametrize("dead", [None, "worker/1"])
def test_recovering_reads_leases_only(dead):
    claim(limit=10)
    with explained(USING) as plans:
        taskqueue.recover(dead=dead, actor="worker")
    recovered = named(plans, "recover")
    assert not recovered.walks("django_tasks_retry_task")
    assert "dtr_leases" in recovered.indexes()


def test_recovering_a_dead_worker_reads_its_leases_only_and_the_sweep_what_it_cancels():
    swept = expire_20_of_500()
    assert "dtr_expiring" in swept.indexes()
    assert swept.rows_read() <= 2 * 20, "each once by its index and once by its id"
    claim(limit=10)
    with explained(USING) as plans:
        assert len(taskqueue.recover(dead="worker/1", actor="worker")) == 10
    assert named(plans, "recover").rows_read() == 2 * 10


def test_a_taken_unique_key_is_found_by_the_key():
    for _ in range(2):
        with explained(USING) as plans:
            taskqueue.enqueue_many(taskqueue.EnqueueOptions(tasks.noop, unique_key=f"key-{n}") for n in range(5))
    for plan in plans:
        assert not plan.walks("django_tasks_retry_task")
        assert plan.rows_read() <= 5
        assert plan.buffers() < 500


def expire_20_of_500() -> Plan:
    """What expired is known to no statistics."""
    taskqueue.enqueue_many([taskqueue.EnqueueOptions(tasks.noop, expires=timedelta(days=1))] * 500)
    guard("DISABLE")
    execute("UPDATE django_tasks_retry_task SET expires_at = now() - interval '1 s' WHERE expires_at IS NOT NULL")
    guard("ENABLE")
    with explained(USING) as plans:
        assert len(taskqueue.expire(limit=20)) == 20
    return named(plans, "expire")


def test_pruning_walks_the_primary_key_a_page_at_a_time():
    with explained(USING) as plans:
        next(taskqueue.prune(batch=BATCH), 0)
    walked = [plan for plan in plans if plan.sql.startswith("SELECT") and RESULT in plan.sql]
    assert sum(page.rows_read(RESULT) for page in walked) <= BATCH
    for plan in plans:
        assert not plan.walks("django_tasks_retry_task")


def test_a_tick_of_schedules_reads_their_runs_and_no_other_task():
    for n in range(3):
        Schedule.objects.create(name=f"s{n}", task=tasks.noop, every=60, overlap=["skip", "queue", "allow"][n])
    Schedule.objects.update(next_at=Now())
    with explained(USING) as plans:
        assert taskqueue.tick().enqueued == 3
    assert not any(plan.walks("django_tasks_retry_task") for plan in plans)
    assert sum(plan.rows_read() for plan in plans if not plan.sql.startswith("INSERT")) <= 3


def test_a_scrape_reads_no_more_than_it_counts():
    """Capped counts, and no walk over the tasks, however many are stored and whatever is believed about them."""
    with explained(USING) as plans:
        taken = take_snapshot()
    assert sum(queue.due for queue in taken.queues) > 0
    about_tasks = [plan for plan in plans if plan.scans()]
    assert len(about_tasks) == 5, "depths, those of lanes, running, retrying, expired"
    for plan in about_tasks:
        assert not plan.walks("django_tasks_retry_task"), plan.sql
        # What is leased is as much as workers have slots for.
        assert plan.indexes() == {"dtr_leases"} or plan.rows_read() <= 4 * LANES * (CAP + 1), plan.sql


def test_asking_for_pending_maintenance_reads_no_more_than_the_leases():
    claim()
    with explained(USING) as plans:
        taskqueue.find_pending_maintenance()
    pending = named(plans, "pending maintenance")
    assert not pending.walks("django_tasks_retry_task")
    assert pending.rows_read() <= Task.objects.using(USING).running().count()
