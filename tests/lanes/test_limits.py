"""Never more tasks of one lane run at once than its limit allows; other tasks are not held up by it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_tasks_retry import clock, taskqueue
from django_tasks_retry.models import FlowLimit, Task
from django_tasks_retry.taskqueue import ClaimMemory, Completed
from tests import tasks
from tests.steps import Clock

pytestmark = pytest.mark.usefixtures("database")


def test_a_template_is_filled_in_from_the_arguments_of_the_call():
    by_place, by_name = Task.objects.enqueue(tasks.sync, args=[7, 1]), tasks.sync.enqueue(tenant=8)
    assert by_place.lane == "tenant-7"
    assert Task.objects.get(pk=by_name.id).lane == "tenant-8"


def test_a_function_without_a_template_is_one_lane(claim, enqueue):
    assert Task.objects.enqueue(tasks.heavy).lane == "tests.tasks.heavy"
    enqueue(tasks.heavy, 5)
    assert len(claim()) == 3


def test_no_more_run_than_the_limit_says(claim, enqueue):
    enqueue(tasks.sync, 5, 1)
    first = claim()
    assert len(first) == 2
    assert claim(worker="worker/2") == []
    taskqueue.finish([Completed(first[0])])
    assert len(claim(worker="worker/2")) == 1


def test_a_full_lane_holds_up_no_other(claim, enqueue):
    enqueue(tasks.sync, 5, 1)
    enqueue(tasks.sync, 1, 2)
    enqueue(tasks.noop, 3)
    assert sorted(lease.lane for lease in claim()) == ["", "", "", "tenant-1", "tenant-1", "tenant-2"]


def test_a_lane_is_one_over_queues_and_priorities(claim, enqueue):
    for queue, priority in (("default", 0), ("emails", 0), ("default", 5)):
        enqueue(tasks.sync, 2, 1, queue=queue, priority=priority)
    assert len(claim()) == 2


@pytest.mark.fault("expired_lease_in_a_limited_lane")
def test_an_expired_lease_holds_its_permit_until_it_is_taken_back(database, claim, enqueue):
    enqueue(tasks.sync, 4, 1)
    claim()
    clock.shift(timedelta(seconds=61), database)
    assert claim(worker="worker/2") == []
    assert len(taskqueue.recover(actor="worker/2")) == 2
    assert len(claim(worker="worker/2")) == 2


def test_a_call_may_name_its_lane_or_leave_it():
    assert Task.objects.enqueue(tasks.noop, lane="stripe").lane == "stripe"
    assert Task.objects.enqueue(tasks.sync, args=[1], lane="").lane == ""


def test_only_what_starts_at_once_is_claimed_from_a_lane_with_a_rate(enqueue):
    """Its starts count from the claim; what a lane without a rate lets run may wait for a slot."""
    enqueue(tasks.call_api, 3, "a")
    enqueue(tasks.heavy, 3)
    enqueue(tasks.noop, 3)
    seconds, leases = Clock(), []
    memory = ClaimMemory(clock=seconds)
    for _ in range(3):
        seconds.advance()
        leases += taskqueue.claim("worker/1", limit=10 - len(leases), memory=memory, at_once=0 if leases else 1)
    assert sum(lease.lane == "api-a" for lease in leases) == 1
    assert sum(lease.func_path == "tests.tasks.heavy" for lease in leases) == 3


def test_little_is_claimed_ahead_beside_a_limited_lane_and_nothing_beside_one_with_a_rate(enqueue):
    memory = ClaimMemory(clock=Clock())
    enqueue(tasks.noop, 2)
    enqueue(tasks.heavy, 5)
    taskqueue.claim("worker/1", memory=memory)
    assert memory.ahead == memory.tuning.limited_ahead
    enqueue(tasks.call_api, 9, "a")
    memory.cursor.came_short = True
    taskqueue.claim("worker/1", memory=memory)
    assert memory.ahead == 0.0


def test_a_rate_that_a_person_decided_is_known_once_its_row_was_locked(enqueue):
    taskqueue.limit_lane("tenant-1", rate=(9, 60), by="ann", reason="their limit")
    enqueue(tasks.sync, 5, 1)
    memory = ClaimMemory(clock=Clock())
    assert len(taskqueue.claim("worker/1", limit=10, memory=memory, at_once=1)) == 1
    assert memory.rows.rated == {"tenant-1"}
    assert memory.ahead == 0.0


def test_a_passage_through_the_limiter_takes_the_same_statements_for_one_lane_and_for_many(enqueue, database):
    for tenant in range(30):
        enqueue(tasks.sync, 1, tenant)
    memory = ClaimMemory(clock=Clock())
    assert len(taskqueue.claim("worker/1", limit=1, memory=memory)) == 1  # which looks for lanes, and makes their rows
    with CaptureQueriesContext(connections[database]) as asked:
        assert len(taskqueue.claim("worker/1", limit=29, memory=memory)) == 29
    if connections[database].vendor == "postgresql":
        assert names_of(asked) == ["Lock limits", "Count leases", "Claim keyed"]


def names_of(asked) -> list[str]:
    return re.findall("-- ([A-Z][a-z ]+)", "\n".join(query["sql"] for query in asked.captured_queries))


def test_a_full_lane_goes_on_with_a_record_and_a_passage_and_is_not_searched_for_again(enqueue, database):
    enqueue(tasks.heavy, 6)
    memory = ClaimMemory(clock=Clock())
    lease, *_ = taskqueue.claim("worker/1", limit=10, memory=memory)
    assert not memory.cursor.came_short, "its only lane is full: a refresh would find it again"
    with CaptureQueriesContext(connections[database]) as asked:
        taskqueue.finish([Completed(lease)])
        memory.closed.reopen(lease.lane)
        assert len(taskqueue.claim("worker/1", limit=10, memory=memory)) == 1
    if connections[database].vendor == "postgresql":
        assert names_of(asked) == ["Complete", "Lock limits", "Count leases", "Claim keyed"]


def test_what_arrives_elsewhere_is_found_though_a_full_lane_has_room_again(enqueue):
    enqueue(tasks.heavy, 6)
    memory = ClaimMemory(clock=Clock())
    lease, *_ = taskqueue.claim("worker/1", limit=10, memory=memory)
    enqueue(tasks.noop)
    taskqueue.finish([Completed(lease)])
    memory.closed.reopen(lease.lane)
    memory.cursor.note_arrival()
    assert "" in {lease.lane for lease in taskqueue.claim("worker/1", limit=10, memory=memory)}


def test_the_starts_of_many_lanes_are_written_by_one_statement(enqueue, database):
    for name in "abcdefgh":
        enqueue(tasks.call_api, 1, name)
    with CaptureQueriesContext(connections[database]) as asked:
        assert len(taskqueue.claim("worker/1", limit=10)) == 8
    table = FlowLimit._meta.db_table
    assert sum(query["sql"].startswith(f'UPDATE "{table}"') for query in asked.captured_queries) == 1


def test_what_has_no_limit_has_no_row(claim, enqueue):
    enqueue(tasks.noop, 3, lane="stripe")
    enqueue(tasks.noop, 3)
    assert len(claim()) == 6
    assert not FlowLimit.objects.exists()


def test_a_whole_queue_and_a_whole_function_are_limited_by_settings(claim, enqueue, settings):
    limits = {"queue:emails": {"concurrency": 2}, "function:tests.tasks.add": {"concurrency": 1}}
    settings.TASKS = with_lanes(settings.TASKS, limits)
    enqueue(tasks.noop, 4, queue="emails")
    enqueue(tasks.sync, 4, 1, queue="emails")
    enqueue(tasks.add, 4, 1, 2)
    enqueue(tasks.noop, 2)
    leases = claim(limit=20)
    assert sorted((lease.queue, lease.func_path) for lease in leases if lease.queue == "default") == [
        ("default", "tests.tasks.add"), ("default", "tests.tasks.noop"), ("default", "tests.tasks.noop"),
    ]  # fmt: skip
    assert sum(lease.queue == "emails" for lease in leases) == 2


def test_a_limit_of_the_settings_stands_before_that_of_the_code_and_a_decision_before_both(claim, enqueue, settings):
    settings.TASKS = with_lanes(settings.TASKS, {"tenant-*": {"concurrency": 3}})
    enqueue(tasks.sync, 9, 1)
    assert len(claim()) == 3
    taskqueue.limit_lane("tenant-1", concurrency=5, by="ann", reason="they paid")
    assert len(claim()) == 2
    taskqueue.limit_lane("tenant-1", by="ann", reason="no longer")
    assert claim() == []


def with_lanes(configured, lanes, **options):
    default = configured["default"]
    return {**configured, "default": {**default, "OPTIONS": {**default.get("OPTIONS", {}), "LANES": lanes, **options}}}


def test_the_row_of_a_lane_that_nobody_uses_any_more_is_forgotten(claim, enqueue, database):
    enqueue(tasks.sync, 1, 1)
    enqueue(tasks.sync, 1, 2)
    [first, second] = claim()
    taskqueue.finish([Completed(first)])
    taskqueue.pause("stripe", kind="lane")
    assert taskqueue.forget_idle() == 0
    clock.shift(timedelta(days=32), database)
    assert taskqueue.forget_idle() == 1
    assert sorted(FlowLimit.objects.values_list("name", flat=True)) == sorted([second.lane, "stripe"])


@pytest.mark.django_db(transaction=True, databases=["default", "postgresql"])
def test_a_lane_that_somebody_else_holds_is_passed_over_and_its_row_is_not_made_again(enqueue, database):
    if connections[database].vendor == "sqlite":
        pytest.skip("one writes at a time")
    enqueue(tasks.sync, 4, 1)
    seconds = Clock()
    memory = ClaimMemory(clock=seconds)
    taskqueue.finish([taskqueue.Completed(lease) for lease in taskqueue.claim("worker/1", limit=1, memory=memory)])
    with holding("tenant-1", database), CaptureQueriesContext(connections[database]) as asked:
        assert taskqueue.claim("worker/1", limit=1, memory=memory) == []
    assert not [query for query in asked.captured_queries if query["sql"].startswith("INSERT")]
    seconds.advance(0.1)
    assert len(taskqueue.claim("worker/1", limit=1, memory=memory)) == 1


@contextmanager
def holding(name: str, using: str) -> Iterator[None]:
    """Somebody else has locked the row of this lane."""
    other = connections[using].copy()
    try:
        with other.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("SELECT 1 FROM django_tasks_retry_lanestate WHERE name = %s FOR UPDATE", [name])
        yield
        with other.cursor() as cursor:
            cursor.execute("ROLLBACK")  # the server frees the locks of a closed connection a moment later
    finally:
        other.close()
