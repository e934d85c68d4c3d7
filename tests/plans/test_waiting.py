"""Tasks that wait cost nothing while they wait: neither a claim nor the sweep nor a wake reads those it does not move.

A hundred thousand of them are loaded here, and a batch of twenty thousand of which all but a few have ended. What is
counted is rows and pages read, so a million would come to the same; `python -m benchmarks.workflows` loads that many.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from django_tasks_retry import call, signal, taskqueue
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import Completed, Sweep
from django_tasks_retry.taskqueue.workflows.members import batch_key, without_success
from django_tasks_retry.taskqueue.workflows.wake import PAGE, wake
from tests.plans.crowds import DUE, USING, analyze, empty, enqueue_due, execute, guard, load
from tests.plans.explain import Plan, explained
from tests.router import CurrentDatabase
from tests.workflows import tasks

pytestmark = [pytest.mark.django_db(databases=["default", USING]), pytest.mark.usefixtures("waiting")]

BATCH = 100
MEMBERS = 20_000
TEN_YEARS = "3650 days"
SUSPEND = "UPDATE django_tasks_retry_task SET waits_for = 'signal:s' || id, attempts = 1, refunds = 1"
JOIN = """
UPDATE django_tasks_retry_task SET batch = '{batch}', finished_at = now() - interval '1 hour' WHERE status = 'SUCCESS'
"""


@pytest.fixture(scope="module", params=["analysed", "analysed empty"])
def crowded(request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: Any) -> Iterator[UUID]:
    """The batch in which nearly all have ended, among all those that wait for signals."""
    before, CurrentDatabase.current = CurrentDatabase.current, USING
    with django_db_blocker.unblock(), transaction.atomic(using=USING):
        empty()
        if request.param == "analysed empty":
            analyze()
        load("PENDING", eta=TEN_YEARS)
        guard("DISABLE")
        execute(SUSPEND)
        guard("ENABLE")
        load("SUCCESS", count=MEMBERS, first=1_000_000)
        [member, _] = Task.objects.enqueue_many([call(tasks.double, n) for n in (1, 2)], then=call(tasks.publish, "x"))
        guard("DISABLE")
        execute(JOIN.format(batch=member.batch))
        guard("ENABLE")
        enqueue_due()
        if request.param == "analysed":
            analyze()
        yield member.batch
        transaction.set_rollback(True, using=USING)
    CurrentDatabase.current = before


@pytest.fixture
def waiting(crowded: UUID) -> UUID:
    return crowded


def read(plans: list[Plan]) -> int:
    return sum(plan.rows_read() for plan in plans)


def test_a_claim_reads_none_of_those_that_wait():
    with explained(USING) as plans:
        assert len(taskqueue.claim("worker/1", limit=BATCH)) == BATCH < DUE
    assert read(plans) <= 2 * BATCH + 10
    assert not any(plan.walks("django_tasks_retry_task") for plan in plans)


def test_the_sweep_reads_a_page_and_not_all_that_wait():
    sweep = Sweep()
    with explained(USING) as plans:
        assert sweep() == []
    assert not any(plan.walks("django_tasks_retry_task") for plan in plans)
    assert read(plans) <= PAGE + 10
    assert sum(plan.buffers() for plan in plans) <= 10 * PAGE


def test_who_was_not_woken_is_found_at_once_however_many_wait(waiting, monkeypatch):
    """Not when the round through all of them has come to it: that takes a hundred pages."""
    with monkeypatch.context() as patched:
        patched.setattr("django_tasks_retry.taskqueue.workflows.wake.try_to_wake", lambda keys, using: None)
        leases = [lease for lease in taskqueue.claim("w", limit=DUE + 2) if lease.batch == waiting]
        taskqueue.finish([Completed(lease, 1) for lease in leases])
        signal("s01900000-0000-7000-8000-00000000ffff")
    sweep = Sweep(after=("signal:t", UUID(int=0)))
    with explained(USING) as plans:
        woken = sweep()
    assert [str(pk)[-4:] for pk in woken if pk != waiting] == ["ffff"]
    assert waiting in woken
    assert not any(plan.walks("django_tasks_retry_task") for plan in plans)
    assert read(plans) <= MEMBERS + 100, "the end of a batch is seen once, by a look at what was open"


def test_a_wake_reads_the_open_members_alone(waiting):
    with explained(USING) as plans:
        assert wake([batch_key(waiting)], USING) == []
    assert read(plans) <= 3
    assert not any(plan.walks("django_tasks_retry_task") for plan in plans)


def test_whether_a_member_has_failed_is_asked_of_those_that_have(waiting):
    """Else a batch that fails fast costs the square of its size."""
    with explained(USING) as plans:
        assert not without_success(waiting, USING).exists()
    assert read(plans) == 0
    assert "dtr_failed_members" in plans[0].indexes()
