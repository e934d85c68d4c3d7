from __future__ import annotations

from datetime import timedelta
from unittest.mock import ANY

import pytest
from django.contrib.auth.models import Group

from django_tasks_retry import clock, taskqueue
from django_tasks_retry.compat import TaskResultStatus
from django_tasks_retry.errors import TaskQueueError
from django_tasks_retry.models import Task
from django_tasks_retry.rules.schedules.declarations import SCHEDULES_ATTRIBUTE, ScheduleDeclaration
from django_tasks_retry.testing import Tasks
from tests import tasks as plain
from tests.backend import samples


@pytest.fixture(autouse=True)
def _forget():
    samples.SEEN.clear()


def test_due_tasks_run_inside_the_tests_transaction(database, tasks):
    result = plain.add.enqueue(1, 2)
    [done] = tasks.run_due()
    assert (done.id, done.return_value) == (result.id, 3)


def test_what_a_task_enqueues_is_run_as_well(database, tasks):
    samples.enqueue_another.enqueue()
    assert [result.task.name for result in tasks.run_due()] == ["enqueue_another", "noop"]


def test_a_retry_waits_until_the_clock_is_advanced(database, tasks):
    result = samples.fail_twice.enqueue("x")
    assert len(tasks.run_due()) == 1
    assert tasks.run_due() == []
    tasks.advance(seconds=11)
    assert len(tasks.run_due()) == 1
    tasks.advance(timedelta(seconds=21))
    tasks.run_due()
    assert tasks.history(result) == ["failed", "failed", "successful"]


def test_run_until_idle_travels_through_all_retries(database, tasks):
    plain.scheduled.enqueue(1)
    results = tasks.run_until_idle()
    assert [result.status for result in results] == [TaskResultStatus.READY] * 3 + [TaskResultStatus.FAILED]
    assert tasks.travelled > timedelta(seconds=300 + 900 + 3600 - 5)


def test_a_snoozed_attempt_is_told_as_released(database, tasks):
    samples.snooze_once.enqueue()
    tasks.run_until_idle()
    assert tasks.history(samples.snooze_once) == ["released", "successful"]


def test_a_task_that_was_not_started_in_time_is_cancelled(database, tasks):
    late = plain.noop.using(expires=timedelta(minutes=5)).enqueue()
    tasks.advance(minutes=5, seconds=1)
    assert tasks.run_due() == []
    assert Task.objects.get(pk=late.id).status == "CANCELLED"
    assert tasks.history(late) == ["cancelled"]


@pytest.fixture
def nightly(monkeypatch):
    """A schedule in code, for as long as the test."""

    def declare(**asked) -> str:
        declared = (ScheduleDeclaration(kwargs={"n": 7}, name="nightly", **asked),)
        monkeypatch.setattr(plain.noop.func, SCHEDULES_ATTRIBUTE, declared, raising=False)
        return "nightly"

    return declare


def test_schedules_enqueue_their_slots_while_the_clock_moves(database, tasks, nightly):
    nightly(cron="30 2 * * *", timezone="UTC")
    tasks.advance(days=1)
    [result] = tasks.run_due()
    assert (result.task.name, result.kwargs) == ("noop", {"n": 7})
    tasks.advance(days=1)
    assert len(tasks.run_due()) == 1
    assert tasks.run_due() == []


def test_each_slot_has_its_task_if_runs_may_overlap(database, tasks, nightly):
    nightly(every=timedelta(minutes=10), overlap="allow")
    tasks.advance(hours=1)
    assert len(tasks.run_due()) == 6


def test_a_slot_is_skipped_while_the_run_before_it_waits(database, tasks, nightly):
    nightly(every=timedelta(minutes=10), overlap="skip")
    tasks.advance(hours=1)
    assert len(tasks.run_due()) == 1


def test_more_slots_than_are_walked_one_by_one_end_on_the_last(database, tasks, nightly):
    nightly(every=timedelta(minutes=1), overlap="allow")
    tasks.advance(hours=3)
    assert len(tasks.run_due()) == 101


def test_a_schedule_is_run_by_name(database, tasks, nightly):
    result = tasks.run_schedule(nightly(cron="30 2 * * *", timezone="UTC"))
    assert (result.status, result.kwargs) == (TaskResultStatus.SUCCESSFUL, {"n": 7})
    assert tasks.run_due() == []
    with pytest.raises(TaskQueueError, match="no schedule"):
        tasks.run_schedule("nghtly")


def test_run_until_idle_does_not_wait_for_the_next_occurrence(database, tasks):
    Task.objects.enqueue(plain.noop, interval=60)
    assert len(tasks.run_until_idle()) == 1


def test_run_until_idle_leaves_paused_queues_and_other_queues_alone(database, tasks):
    taskqueue.pause("bulk")
    plain.noop.using(queue_name="bulk").enqueue()
    plain.noop.using(queue_name="reports", run_after=timedelta(hours=1)).enqueue()
    plain.noop.using(queue_name="emails", run_after=timedelta(hours=1)).enqueue()
    assert [result.task.queue_name for result in tasks.run_until_idle(["emails", "bulk"])] == ["emails"]


def test_work_without_end_is_an_assertion_error(database, tasks):
    Task.objects.enqueue(plain.explode, backoff=[0], max_attempts=100)
    with pytest.raises(AssertionError, match=r"still work: tests\.tasks\.explode"):
        tasks.run_due(limit=5)


def test_the_clock_does_not_go_back(database, tasks):
    with pytest.raises(ValueError, match="only moves forward"):
        tasks.advance(minutes=-1)


def test_the_clock_is_given_back_at_the_end(committed):
    harness = Tasks()
    before = clock.now(committed)
    harness.advance(days=3)
    assert clock.now(committed) - before > timedelta(days=2)
    harness.close()
    assert clock.now(committed) - before < timedelta(days=2)


def test_what_a_task_wrote_before_it_failed_stays(database, tasks):
    result = samples.add_group_and_fail.enqueue("a")
    tasks.run_due()
    assert tasks.history(result) == ["failed"]
    assert Group.objects.filter(name="a").exists()


def test_a_refused_statement_does_not_break_the_test(database, tasks):
    result = samples.add_group_twice.enqueue("a")
    tasks.run_due()
    assert tasks.history(result) == ["failed"]
    assert not Group.objects.filter(name="a").exists()
    assert plain.noop.enqueue()


def test_a_refused_query_does_not_break_the_test(database, tasks):
    result = samples.ask_for_nowhere.enqueue()
    tasks.run_due()
    assert tasks.history(result) == ["failed"]


def test_what_a_task_leaves_for_its_commit_is_done(database, tasks):
    samples.add_group_on_commit.enqueue("a")
    tasks.run_due()
    assert samples.SEEN == ["a"]


def test_an_interrupted_test_leaves_no_lease_behind(database, tasks):
    result = samples.interrupt.enqueue()
    with pytest.raises(KeyboardInterrupt):
        tasks.run_due()
    assert tasks.history(result) == ["released"]


def test_an_enqueued_call_is_found_however_its_arguments_were_passed(database, tasks):
    result = plain.add.enqueue(1, b=2)
    for found in (
        tasks.assert_enqueued(plain.add),
        tasks.assert_enqueued(plain.add.func, a=1),
        tasks.assert_enqueued(plain.add, 1, 2),
        tasks.assert_enqueued(plain.add, b=2, queue="default", priority=0),
        tasks.assert_enqueued(plain.add, ANY, 2),
    ):
        assert found == result
    tasks.assert_not_enqueued(plain.add, b=3)
    tasks.assert_not_enqueued(plain.add, queue="emails")
    tasks.assert_not_enqueued(plain.noop)


def test_keyword_arguments_of_any_name_are_compared(database, tasks):
    plain.noop.enqueue(1, colour="red", size=(1, 2))
    tasks.assert_enqueued(plain.noop, colour="red")
    tasks.assert_enqueued(plain.noop, size=(1, 2))
    tasks.assert_not_enqueued(plain.noop, colour="blue")


def test_a_failed_assertion_prints_what_was_enqueued_nearest_first(database, tasks):
    plain.noop.enqueue(order_id=42)
    plain.scheduled.enqueue(7)
    plain.scheduled.using(queue_name="bulk").enqueue(42)
    with pytest.raises(AssertionError) as raised:
        tasks.assert_enqueued(plain.scheduled, order_id=42, queue="emails")
    assert str(raised.value).splitlines() == [
        "scheduled(order_id=42), queue 'emails' was not enqueued. Enqueued, nearest match first:",
        "  scheduled(order_id=42)  queue='bulk' priority=0 PENDING  <- queue is 'bulk'",
        "  scheduled(order_id=7)  queue='emails' priority=0 PENDING  <- order_id is 7",
        "  noop(order_id=42)  queue='default' priority=0 PENDING  <- another task",
    ]


def test_a_failed_assertion_says_that_nothing_was_enqueued(database, tasks):
    with pytest.raises(AssertionError, match=r"add\(a=1\) was not enqueued. Nothing was enqueued."):
        tasks.assert_enqueued(plain.add, a=1)


def test_a_call_that_must_not_be_there_is_shown(database, tasks):
    plain.add.enqueue(1, 2)
    with pytest.raises(AssertionError, match=r"add\(a=1, b=2\) .* <- matches"):
        tasks.assert_not_enqueued(plain.add)


def test_an_argument_that_the_function_does_not_take_is_an_error(database, tasks):
    with pytest.raises(TypeError, match="unexpected keyword argument 'order'"):
        tasks.assert_enqueued(plain.scheduled, order=1)


def test_a_history_needs_one_call(database, tasks):
    with pytest.raises(AssertionError, match="0 calls match"):
        tasks.history(plain.add)
    plain.add.enqueue(1, 2)
    plain.add.enqueue(3, 4)
    with pytest.raises(AssertionError, match="2 calls match"):
        tasks.history(plain.add)
    assert tasks.history(plain.add, a=3) == []


def test_a_lost_attempt_is_told_once(database, tasks):
    task = Task.objects.enqueue(plain.noop, max_attempts=1)
    taskqueue.claim("worker")
    tasks.advance(minutes=5)
    taskqueue.recover()
    task.refresh_from_db()
    assert (task.status, tasks.history(plain.noop)) == ("FAILED", ["lost"])


def test_everything_enqueued_can_be_read(database, tasks):
    first, second = plain.noop.enqueue(), plain.add.enqueue(1, 2)
    assert tasks.enqueued() == [first, second]
    assert tasks.enqueued(plain.add) == [second]


LIMITED = {"queue": "queue:emails", "function": "function:tests.tasks.add", "lane": "stripe"}


@pytest.mark.parametrize("limit", [{"concurrency": 1}, {"rate": (4, 60)}])
@pytest.mark.parametrize("kind", LIMITED)
def test_what_is_limited_runs_in_a_fresh_database(database, tasks, configure, kind, limit):
    configure(LANES={LIMITED[kind]: limit})
    Task.objects.enqueue_many(
        [{"func": plain.add, "args": [1, n], "queue": "emails", "lane": "stripe"} for n in range(4)]
    )
    assert sorted(result.return_value for result in tasks.run_due()) == [1, 2, 3, 4]


def test_a_rate_lets_the_next_ones_run_when_the_clock_is_advanced(database, tasks, configure):
    configure(LANES={"queue:emails": {"rate": (2, 60)}})
    Task.objects.enqueue_many([{"func": plain.add, "args": [1, n], "queue": "emails"} for n in range(4)])
    assert len(tasks.run_due()) == 2
    tasks.advance(seconds=62)
    assert len(tasks.run_due()) == 2
