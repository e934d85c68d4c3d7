"""One question tells what any worker has to do for the whole queue; what it does not name is not asked for."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_tasks_retry import clock, taskqueue
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import PendingMaintenance, expire, find_pending_maintenance
from django_tasks_retry.worker.shared.database import DatabaseCaller
from django_tasks_retry.worker.shared.outcomes import Counts, OutcomePublisher
from django_tasks_retry.worker.supervisor.maintenance.maintenance import Maintenance
from django_tasks_retry.worker.supervisor.maintenance.services import Recover
from tests import tasks
from tests.steps import begin, enqueue, now_of


def recovery_of(one: Maintenance) -> Recover:
    return next(service for service in one.services if isinstance(service, Recover))


@pytest.fixture
def maintenance(database: str) -> Maintenance:
    return Maintenance("me", "default", DatabaseCaller(database, 60.0), OutcomePublisher(Counts().note, print), print)


def look_again(one: Maintenance) -> int:
    one.pending.interval.soon()
    return one.tick()


def test_a_queue_at_rest_needs_nothing(database):
    begin()
    enqueue()
    assert find_pending_maintenance() == PendingMaintenance()


def test_a_lease_that_ran_out_is_a_duty_until_it_is_recovered(database, maintenance, travel):
    task, _ = begin()
    assert look_again(maintenance) == 0
    travel(3600)
    assert find_pending_maintenance() == PendingMaintenance(lost=True)
    recovery_of(maintenance).patience = 0.0
    assert look_again(maintenance) == 1
    assert now_of(task).status == "PENDING"
    assert find_pending_maintenance() == PendingMaintenance()


def test_a_lease_that_ran_out_is_left_to_its_owner_while_it_may_have_been_kept_from_renewing(
    database, maintenance, travel
):
    task, lease = begin()
    asked = clock.host_time()
    travel(3600)
    assert [look_again(maintenance), look_again(maintenance)] == [0, 0]
    assert now_of(task).status == "RUNNING"
    if connections[database].vendor == "sqlite":
        taskqueue.renew([lease], asked=asked)
        assert look_again(maintenance) == 0
        assert recovery_of(maintenance).writable_since is None


def test_what_expired_before_it_began_is_a_duty_until_it_is_cancelled(database, maintenance, travel):
    task = Task.objects.enqueue(tasks.noop, expires=timedelta(minutes=1))
    assert find_pending_maintenance() == PendingMaintenance()
    travel(120)
    assert find_pending_maintenance() == PendingMaintenance(expired=True)
    look_again(maintenance)
    assert now_of(task).status == "CANCELLED"
    assert find_pending_maintenance() == PendingMaintenance()


def test_more_than_a_batch_that_expired_is_gone_through_at_once(database, maintenance, travel, monkeypatch):
    monkeypatch.setattr("django_tasks_retry.worker.supervisor.maintenance.services.EXPIRED_AT_ONCE", 2)
    monkeypatch.setitem(expire.__kwdefaults__, "limit", 2)
    for _ in range(5):
        Task.objects.enqueue(tasks.noop, expires=timedelta(minutes=1))
    travel(120)
    look_again(maintenance)
    maintenance.pending.interval.reset()
    maintenance.tick()
    maintenance.tick()
    assert Task.objects.filter(status="CANCELLED").count() == 5
    assert not maintenance.pending.found.expired


def test_a_schedule_is_a_duty(database):
    taskqueue.create_schedule(name="nightly", task=tasks.noop, cron="0 3 * * *")
    assert find_pending_maintenance() == PendingMaintenance(scheduled=True)


def test_a_supervisor_sleeps_no_longer_than_until_slots_are_looked_at(database, maintenance):
    look_again(maintenance)
    assert maintenance.next_schedule_check == float("inf")
    taskqueue.create_schedule(name="often", task=tasks.noop, every=1)
    look_again(maintenance)
    assert maintenance.next_schedule_check == maintenance.schedules.interval.next


def test_a_worker_at_rest_asks_one_question(database, maintenance):
    look_again(maintenance)
    with CaptureQueriesContext(connections[database]) as asked:
        look_again(maintenance)
        maintenance.tick()
    assert [query["sql"] for query in asked if "Pending maintenance" not in query["sql"]] == []
    assert len(asked) == 1
