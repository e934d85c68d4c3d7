"""An idle transaction keeps every dead row and index entry in place. Claims must not come to read them."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
from django.db import connections

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Task
from tests import tasks
from tests.plans.crowds import USING
from tests.plans.explain import explained
from tests.router import CurrentDatabase

BATCH = 100
TASKS = 20_000

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", USING])


@pytest.fixture(autouse=True)
def on_postgresql(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CurrentDatabase, "current", USING)


@pytest.fixture
def pinned_horizon() -> Iterator[None]:
    """Another session's snapshot, older than all that the test does."""
    old = connections.create_connection(USING)
    with old.cursor() as cursor:
        cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("SELECT count(*) FROM django_tasks_retry_task")
        yield
    old.close()


def cycle(lanes: taskqueue.Lanes) -> None:
    leases = taskqueue.claim("worker/1", limit=BATCH, lanes=lanes)
    assert len(leases) == BATCH
    taskqueue.renew(leases)
    taskqueue.finish([taskqueue.Completed(lease) for lease in leases])


def buffers(lanes: taskqueue.Lanes) -> dict[str, int]:
    """What a cycle touches of the shared buffers, by statement."""
    with explained(USING) as plans:
        cycle(lanes)
    return {plan.name: plan.buffers() for plan in plans}


@pytest.mark.fault("F40")
def test_claims_and_reports_touch_no_more_pages_after_thousands_of_tasks(pinned_horizon):
    for _ in range(10):
        taskqueue.enqueue_many(taskqueue.Request(tasks.noop) for _ in range(TASKS // 10))
    lanes = taskqueue.Lanes()
    cycle(lanes)
    lanes.looked_at += 3600  # no second look, which would hide a floor that does not rise
    early = buffers(lanes)
    for _ in range(TASKS // BATCH - 3):
        cycle(lanes)
    late = buffers(lanes)
    assert Task.objects.successful().count() == TASKS
    for verb in ("Claim", "Renew", "Finish"):
        assert late[verb] <= 1.5 * early[verb], (early, late)


def test_an_idle_worker_claims_an_arrival_in_a_lane_it_knows_without_looking():
    lanes = taskqueue.Lanes(slow=math.inf)  # however busy the machine is
    Task.objects.enqueue(tasks.noop)
    assert len(taskqueue.claim("worker/1", limit=BATCH, lanes=lanes)) == 1
    assert taskqueue.claim("worker/1", limit=BATCH, lanes=lanes) == []
    arrived = Task.objects.enqueue(tasks.noop)
    with explained(USING) as plans:
        assert [lease.id for lease in taskqueue.claim("worker/1", limit=BATCH, lanes=lanes)] == [arrived.id]
    assert [plan.name for plan in plans] == ["Claim"]


def test_an_idle_worker_looks_and_claims_nothing():
    lanes = taskqueue.Lanes(slow=math.inf)
    Task.objects.enqueue(tasks.noop)
    taskqueue.claim("worker/1", limit=BATCH, lanes=lanes)
    lanes.looked_at = -math.inf
    with explained(USING) as plans:
        assert taskqueue.claim("worker/1", limit=BATCH, lanes=lanes) == []
    assert [plan.name for plan in plans] == ["Lanes"]


def test_a_lane_in_which_nothing_was_due_for_a_minute_is_forgotten():
    lanes = taskqueue.Lanes()
    Task.objects.enqueue(tasks.noop)
    taskqueue.claim("worker/1", limit=BATCH, lanes=lanes)
    [lane] = lanes.lanes
    lane.due_at -= 61
    assert taskqueue.claim("worker/1", limit=BATCH, lanes=lanes) == []
    assert lanes.lanes == []


def test_where_looking_is_slow_it_is_done_less_often():
    lanes = taskqueue.Lanes(slow=0.0)
    Task.objects.enqueue(tasks.noop)
    for _ in range(2):
        lanes.looked_at = lanes.rest = -math.inf
        taskqueue.claim("worker/1", limit=BATCH, lanes=lanes)
    assert lanes.rest > 0
