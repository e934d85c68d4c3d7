"""Every statement is safe by itself, whatever the plan: a small table is read as a whole, and joined afterwards.

An expression over one task alone may then be computed for every other task, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db import connections

from django_tasks_retry import signal, taskqueue
from django_tasks_retry.errors import Abort
from django_tasks_retry.models import Schedule, Task
from django_tasks_retry.taskqueue.engines import engine_for
from django_tasks_retry.taskqueue.statistics.failure_groups import (
    describe_groups,
    estimate_groups,
    failed_since,
    group_heads,
)
from django_tasks_retry.taskqueue.statistics.summaries import depths
from django_tasks_retry.testing.harness import Tasks
from tests import tasks
from tests.steps import claim_one, enqueue, now_of
from tests.workflows import tasks as workflows

METHODS = (
    "nestloop",
    "hashjoin",
    "mergejoin",
    "indexscan",
    "seqscan",
    "nestloop,indexscan",
    "hashjoin,mergejoin,seqscan",
)
PLANS = [("sqlite", ""), ("postgresql", ""), *[("postgresql", methods) for methods in METHODS]]
"""PostgreSQL's methods that a plan does without. SQLite has no such setting."""


@pytest.fixture
def without(request: pytest.FixtureRequest, database: str) -> None:
    if request.param:
        with connections[database].cursor() as cursor:
            cursor.execute("DISCARD PLANS")
            for method in request.param.split(","):
                cursor.execute(f"SET LOCAL enable_{method} = off")


@pytest.fixture(params=["functions", "texts"])
def statements(request: pytest.FixtureRequest, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL's functions, or the texts that are used if those are missing."""
    if request.param == "texts" and connections[database].vendor == "postgresql":
        monkeypatch.setattr(engine_for(database).functions, "are_there", False)


@pytest.fixture
def harness(database: str) -> Iterator[Tasks]:
    """With tasks of every kind: of schedules, of batches, waiting for signals, failed, scheduled and repeating."""
    harness = Tasks()
    Schedule.objects.create(name="hourly", task=tasks.noop, every=timedelta(hours=1), overlap="allow")
    for _ in range(3):
        harness.advance(hours=1)
        taskqueue.tick(actor="worker")
    taskqueue.complete_task(claim_one())
    taskqueue.fail_task(claim_one(), Abort("no"))
    enqueue(workflows.fan_out, [1, 2])
    enqueue(workflows.approval, "later")
    harness.run_due()
    enqueue(workflows.fan_out, [3])
    enqueue(eta=timedelta(days=1), interval=60)
    yield harness
    harness.close()


@pytest.mark.usefixtures("without", "statements")
@pytest.mark.parametrize(("on", "without"), PLANS, indirect=True)
def test_a_repeating_task_goes_on_beside_tasks_of_schedules(harness):
    first = enqueue(interval=600, priority=9)
    taskqueue.complete_task(claim_one())
    assert now_of(first).status == "SUCCESS"
    assert Task.objects.pending().filter(interval=600).get().eta == first.eta + timedelta(minutes=10)


@pytest.mark.usefixtures("without", "statements")
@pytest.mark.parametrize(("on", "without"), PLANS, indirect=True)
def test_every_verb_works_beside_tasks_of_every_kind(harness, database):
    plain, lost, gone, failing = (enqueue(priority=9, max_attempts=1, unique_key=f"{n}") for n in range(4))
    leases = {lease.id: lease for lease in taskqueue.claim("worker/1", limit=4)}
    assert taskqueue.renew(list(leases.values())) == {}
    taskqueue.fail_task(leases[failing.pk], ValueError("no"))
    taskqueue.complete_task(leases[plain.pk], {"n": 1})
    gone.cancel()
    assert len(taskqueue.recover(dead="worker/1", actor="worker")) == 1
    assert [now_of(each).status for each in (plain, lost, gone, failing)] == [
        "SUCCESS",
        "FAILED",
        "CANCELLED",
        "FAILED",
    ]
    enqueue(expires=timedelta(seconds=1))
    harness.advance(seconds=2)
    assert len(taskqueue.expire(actor="worker")) == 1
    signal("later", "yes")
    harness.run_due()
    assert not Task.objects.pending().filter(waits_for__isnull=False).exists()
    assert depths(database)
    assert len(describe_groups(group_heads(database), database)) == 3
    assert failed_since(group_heads(database), now_of(plain).created_at, database) == 2
    estimate_groups(database)
    harness.advance(days=400)
    taskqueue.recover(actor="worker")
    assert list(taskqueue.prune())
