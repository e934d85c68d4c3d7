"""Members arrive in a burst, so statistics are older than a batch. Reading it stays linear all the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import transaction

from django_tasks_retry.taskqueue.engines import engine_for
from django_tasks_retry.taskqueue.workflows.context import Results
from django_tasks_retry.taskqueue.workflows.members import batch_key, without_success
from django_tasks_retry.verify.relations import originals
from tests.plans.crowds import USING, analyze, empty, execute, guard, load
from tests.plans.explain import explained
from tests.router import CurrentDatabase

pytestmark = [pytest.mark.django_db(databases=["default", USING]), pytest.mark.usefixtures("batch")]

MEMBERS = 20_000
BUFFERS_A_MEMBER = 8
"""Two descents of an index, at most: to a member's retry, and to a later one."""
JOIN = "UPDATE django_tasks_retry_task SET batch = '{batch}', finished_at = now() WHERE status = 'SUCCESS'"
RETRY_HALF = """
UPDATE django_tasks_retry_task AS retry SET retry_of_id = original.id
FROM django_tasks_retry_task AS original
WHERE retry.unique_key = 'crowd-' || (substr(original.unique_key, 7)::int + {half})
"""
OPEN_MEMBER = "UPDATE django_tasks_retry_task SET batch = '{batch}' WHERE unique_key = 'crowd-1000000'"
WAIT = "UPDATE django_tasks_retry_task SET waits_for = '{key}' WHERE unique_key = 'crowd-1000001'"
FAIL_ORIGINALS = "UPDATE django_tasks_retry_task SET status = 'FAILED' WHERE retry_of_id IS NULL AND status = 'SUCCESS'"


@pytest.fixture(scope="module")
def batch(django_db_setup: None, django_db_blocker: Any) -> Iterator[UUID]:
    """A batch of which half of the members failed and were retried, in a table that was analysed before."""
    before, CurrentDatabase.current = CurrentDatabase.current, USING
    with django_db_blocker.unblock(), transaction.atomic(using=USING):
        empty()
        load("PENDING", count=20, first=2_000_000)
        analyze()
        load("SUCCESS", count=MEMBERS)
        load("PENDING", count=2, first=1_000_000)
        guard("DISABLE")
        found = uuid4()
        execute(JOIN.format(batch=found))
        execute(RETRY_HALF.format(half=MEMBERS // 2))
        execute(FAIL_ORIGINALS)
        execute(OPEN_MEMBER.format(batch=found))
        execute(WAIT.format(key=batch_key(found, fail_fast=True)))
        guard("ENABLE")
        yield found
        transaction.set_rollback(True, using=USING)
    CurrentDatabase.current = before


def test_the_results_of_a_batch_are_counted_in_linear_time(batch):
    with explained(USING) as plans:
        assert len(Results(batch, USING)) == MEMBERS // 2 + 1
        assert originals(batch, USING).count() == MEMBERS // 2 + 1
    assert [plan.buffers() <= BUFFERS_A_MEMBER * MEMBERS for plan in plans] == [True, True]
    assert sum(plan.rows_read() for plan in plans) <= 4 * MEMBERS


def test_members_that_failed_are_compared_with_their_own_retries_alone(batch):
    with explained(USING) as plans:
        assert not without_success(batch, USING).exists()
        [waiting] = engine_for(USING).waiting_for([batch_key(batch, fail_fast=True)], 10)
        assert engine_for(USING).waiting_tasks(("", UUID(int=0)), 10) == [waiting]
    assert not waiting.is_ready
    assert [plan.rows_read() <= 2 * MEMBERS for plan in plans] == [True] * 3
    assert [plan.buffers() <= BUFFERS_A_MEMBER * MEMBERS for plan in plans] == [True] * 3
