"""An idle transaction keeps every dead row and index entry in place. Claims must not come to read them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connections

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Task
from tests import tasks
from tests.plans.crowds import USING
from tests.plans.explain import explained
from tests.router import CurrentDatabase
from tests.steps import Clock, stopped

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


def cycle(memory: taskqueue.ClaimMemory) -> None:
    leases = taskqueue.claim("worker/1", limit=BATCH, memory=memory)
    assert len(leases) == BATCH
    taskqueue.renew(leases)
    taskqueue.finish([taskqueue.Completed(lease) for lease in leases])


def buffers(memory: taskqueue.ClaimMemory) -> dict[str, int]:
    """Return the shared buffers that a cycle touches, by statement."""
    with explained(USING) as plans:
        cycle(memory)
    return {plan.name: plan.buffers() for plan in plans}


@pytest.mark.fault("pinned_horizon")
def test_claims_and_reports_touch_no_more_pages_after_thousands_of_tasks(pinned_horizon):
    for _ in range(10):
        taskqueue.enqueue_many(taskqueue.EnqueueOptions(tasks.noop) for _ in range(TASKS // 10))
    memory = taskqueue.ClaimMemory(clock=stopped)  # no second refresh, which would hide a floor that does not rise
    cycle(memory)
    early = buffers(memory)
    for _ in range(TASKS // BATCH - 3):
        cycle(memory)
    late = buffers(memory)
    assert Task.objects.successful().count() == TASKS
    for verb in ("Claim", "Renew", "Complete"):
        assert late[verb] <= 1.5 * early[verb], (early, late)


def test_an_idle_worker_claims_an_arrival_in_a_range_it_knows_without_a_refresh():
    memory = taskqueue.ClaimMemory(clock=stopped)
    Task.objects.enqueue(tasks.noop)
    assert len(taskqueue.claim("worker/1", limit=BATCH, memory=memory)) == 1
    assert taskqueue.claim("worker/1", limit=BATCH, memory=memory) == []
    arrived = Task.objects.enqueue(tasks.noop)
    with explained(USING) as plans:
        assert [lease.id for lease in taskqueue.claim("worker/1", limit=BATCH, memory=memory)] == [arrived.id]
    assert [plan.name for plan in plans] == ["Claim"]


def test_an_idle_worker_refreshes_and_claims_nothing():
    clock = Clock()
    memory = taskqueue.ClaimMemory(clock=clock)
    Task.objects.enqueue(tasks.noop)
    taskqueue.claim("worker/1", limit=BATCH, memory=memory)
    clock.advance()
    with explained(USING) as plans:
        assert taskqueue.claim("worker/1", limit=BATCH, memory=memory) == []
    assert [plan.name for plan in plans] == ["Lanes"]


def test_a_range_in_which_nothing_was_due_for_a_minute_is_forgotten():
    clock = Clock()
    memory = taskqueue.ClaimMemory(clock=clock)
    Task.objects.enqueue(tasks.noop)
    taskqueue.claim("worker/1", limit=BATCH, memory=memory)
    assert len(memory.cursor.ranges) == 1
    clock.advance(61)
    assert taskqueue.claim("worker/1", limit=BATCH, memory=memory) == []
    assert memory.cursor.ranges == []


def test_slow_refreshes_are_made_less_often():
    clock = Clock(step=0.02)
    memory = taskqueue.ClaimMemory(clock=clock)
    Task.objects.enqueue(tasks.noop)
    for _ in range(2):
        clock.advance()
        taskqueue.claim("worker/1", limit=BATCH, memory=memory)
    assert memory.cursor.rest > 0
