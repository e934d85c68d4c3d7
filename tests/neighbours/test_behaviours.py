"""Behaviours that users of other queues rely on, by the names of their tests; docs/behaviours.rst counts them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from django_tasks_retry import Abort, Retry, Snooze, call, chain, clock, retry, signal, taskqueue
from django_tasks_retry.compat import task
from django_tasks_retry.errors import AlreadyEnqueued, LeaseLost, QueueFull, TaskQueueError, WrongArguments
from django_tasks_retry.models import Schedule, Task
from django_tasks_retry.testing import Tasks
from django_tasks_retry.testing.inline import run_inline
from tests import tasks
from tests.lanes.test_limits import with_lanes
from tests.schedules.steps import decisions, plan, runs, tick
from tests.steps import now_of
from tests.workflows import tasks as flows

BEHAVIOURS: list[Callable[[Tasks], None]] = []
RAN: list[int] = []


def behaviour(check: Callable[[Tasks], None]) -> Callable[[Tasks], None]:
    BEHAVIOURS.append(check)
    return check


@task
@retry(max_attempts=2, backoff=[5], abort_on=(KeyError,))
def unlucky(kind: str) -> None:
    RAN.append(1)
    if len(RAN) == 1:
        raise {"snooze": Snooze(60), "abort": Abort("no"), "key": KeyError("x"), "value": ValueError("x")}[kind]


@task(takes_context=True)
@retry(max_attempts=1)
def careful(context: Any) -> None:
    context.call("has attempts of its own", unlucky, "value")


@task(takes_context=True)
def replaced(context: Any, number: int) -> int:
    return context.call("instead", flows.double, number)


@task(takes_context=True)
def impatient(context: Any) -> None:
    context.step("in time", flows.note, "note", timeout=1)


def add(func=tasks.noop, *args: object, **options: object) -> Task:
    return Task.objects.enqueue(func, args, **options)


def claimed(limit: int = 9) -> list[taskqueue.Lease]:
    return taskqueue.claim("worker", limit=limit)


def status(row: Task) -> str:
    return now_of(row).status


def all_due(kit: Tasks) -> list[taskqueue.Lease]:
    """Claim until nothing more may start."""
    return [lease for leases in iter(kit.claim_due, []) for lease in leases]


@pytest.fixture
def kit(database, settings):
    settings.TASKS = with_lanes(
        settings.TASKS, {"queue:bulk": {"concurrency": 1}, "api": {"rate": (2, 60)}}, BACKLOG={"lane:narrow": 2}
    )
    RAN.clear()
    flows.calls.clear()
    harness = Tasks()
    yield harness
    harness.close()


# Oban


@behaviour
def oban_inserting_a_duplicate_returns_the_existing_job(kit):
    assert add(unique_key="k").pk == add(unique_key="k").pk


@behaviour
def oban_uniqueness_may_be_scoped_by_queue(kit):
    assert add(unique_key="k").pk != add(unique_key="k", queue="emails").pk


@behaviour
def oban_insert_all_respects_uniqueness(kit):
    first, second = Task.objects.enqueue_many([{"func": tasks.noop, "unique_key": "k"}] * 2)
    assert first.pk == second.pk


@behaviour
def oban_replacing_cancels_the_job_that_waits(kit):
    first, second = add(unique_key="k"), add(unique_key="k", on_conflict="replace")
    assert (status(first), status(second)) == ("CANCELLED", "PENDING")


@behaviour
def oban_scheduled_jobs_are_not_available_before_their_time(kit):
    row = add(eta=timedelta(seconds=60))
    assert claimed() == []
    kit.advance(seconds=61)
    assert [lease.id for lease in claimed()] == [row.pk]


@behaviour
def oban_cancelled_jobs_never_run(kit):
    row = add()
    row.cancel()
    assert (claimed(), status(row)) == ([], "CANCELLED")


@behaviour
def oban_cancelling_an_executing_job_rejects_its_outcome(kit):
    row = add()
    [lease] = claimed()
    row.cancel()
    with pytest.raises(LeaseLost, match="CANCELLED"):
        taskqueue.complete_task(lease)


@behaviour
def oban_cancel_all_leaves_finished_jobs_alone(kit):
    done = add()
    kit.run_due()
    waiting = add()
    taskqueue.cancel([done.pk, waiting.pk])
    assert (status(done), status(waiting)) == ("SUCCESS", "CANCELLED")


@behaviour
def oban_retrying_a_cancelled_job_makes_it_available(kit):
    row = add()
    row.cancel()
    again = row.retry(by="ann")
    assert (status(again), again.retry_of.pk) == ("PENDING", row.pk)


@behaviour
def oban_snoozing_spends_no_attempt(kit):
    row = add(unlucky, "snooze")
    kit.run_due()
    assert (status(row), now_of(row).attempts - now_of(row).refunds) == ("PENDING", 0)


@behaviour
def oban_a_cancel_tuple_ends_without_retry(kit):
    row = add(unlucky, "abort")
    kit.run_due()
    assert (status(row), now_of(row).attempts) == ("FAILED", 1)


@behaviour
def oban_errors_are_recorded_for_each_attempt(kit):
    row = add(unlucky, "value")
    kit.run_until_idle()
    assert [event.attempt for event in row.events.filter(kind="task.failed")] == [1]
    assert status(row) == "SUCCESS"


@behaviour
def oban_jobs_are_fetched_by_priority(kit):
    low, high = add(priority=-5), add(priority=5)
    assert [lease.id for lease in claimed()] == [high.pk, low.pk]


@behaviour
def oban_uniqueness_may_have_a_period(kit):
    first = add(unique_key="k", unique_for=60)
    kit.run_due()
    assert add(unique_key="k", unique_for=60).pk == first.pk
    kit.advance(seconds=61)
    assert add(unique_key="k", unique_for=60).pk != first.pk


@behaviour
def oban_a_job_that_waits_is_given_other_arguments(kit):
    row = add(tasks.add, 1, 2)
    row.cancel()
    [again] = taskqueue.retry([row.pk], call=([3, 4], {}))
    kit.run_due()
    assert (now_of(again).outcome.result, again.retry_of.pk, now_of(row).args) == (7, row.pk, [1, 2])


# GoodJob


@behaviour
def goodjob_total_limit_is_not_exceeded(kit):
    for _ in range(3):
        add(queue="bulk")
    assert len(all_due(kit)) == 1


@behaviour
def goodjob_a_batch_runs_its_callback_once_all_have_finished(kit):
    Task.objects.enqueue_many([call(flows.double, n) for n in (1, 2)], then=call(flows.publish, "done"))
    kit.run_due()
    [callback] = Task.objects.filter(func_path__endswith=".publish")
    assert now_of(callback).outcome.result == ["done", 2, 4]


@behaviour
def goodjob_a_batch_with_discarded_jobs_runs_its_callback(kit):
    Task.objects.enqueue_many([call(flows.fragile, -1)], then=call(flows.publish, "done"))
    kit.run_due()
    assert status(Task.objects.get(func_path__endswith=".publish")) == "SUCCESS"


@behaviour
def goodjob_an_empty_batch_runs_its_callback(kit):
    Task.objects.enqueue_many([], then=call(flows.publish, "done"))
    kit.run_due()
    assert status(Task.objects.get(func_path__endswith=".publish")) == "SUCCESS"


@behaviour
def goodjob_cron_enqueues_each_slot_once_however_many_managers_run(kit):
    plan()
    kit.travel_to(timedelta(seconds=61))
    assert [tick().enqueued for _ in range(3)] == [1, 0, 0]


@behaviour
def goodjob_a_disabled_cron_entry_enqueues_nothing(kit):
    plan().pause(by="ann")
    kit.advance(seconds=61)
    assert tick().enqueued == 0


@behaviour
def goodjob_bulk_enqueue_is_all_or_nothing(kit):
    with pytest.raises(WrongArguments, match="argument"):
        Task.objects.enqueue_many([(tasks.add, [1, 2]), (tasks.add, [1])])
    assert not Task.objects.exists()


@behaviour
def goodjob_an_enqueue_limit_is_told_instead_of_dropping_the_job(kit):
    for _ in range(2):
        add(lane="narrow")
    with pytest.raises(QueueFull):
        add(lane="narrow")
    claimed(1)
    assert add(lane="narrow").pk


# Solid Queue


@behaviour
def solid_queue_a_blocked_job_is_released_when_the_first_finishes(kit):
    first, second = add(queue="bulk"), add(queue="bulk")
    [lease] = kit.claim_due()
    taskqueue.complete_task(lease)
    [after] = kit.claim_due()
    assert (lease.id, after.id) == (first.pk, second.pk)


@behaviour
def solid_queue_keys_do_not_block_each_other(kit):
    for tenant in ("a", "a", "a", "b"):
        add(tasks.sync, tenant)
    assert sorted(lease.args[0] for lease in all_due(kit)) == ["a", "a", "b"]


@behaviour
def solid_queue_jobs_of_a_paused_queue_wait_until_it_is_resumed(kit):
    add()
    taskqueue.pause("default")
    assert claimed() == []
    taskqueue.resume("default")
    assert len(claimed()) == 1


@behaviour
def solid_queue_jobs_of_a_process_that_died_are_released(kit):
    row = add()
    claimed()
    kit.advance(seconds=3600)
    taskqueue.recover()
    assert (status(row), [lease.attempts for lease in claimed()]) == ("PENDING", [2])


@behaviour
def solid_queue_a_deleted_recurring_task_enqueues_no_more(kit):
    plan()
    taskqueue.delete_schedule("every minute")
    kit.advance(seconds=61)
    assert (tick().enqueued, Schedule.objects.exists()) == (0, False)


@behaviour
def solid_queue_finished_jobs_are_cleared_after_their_time(kit):
    row = add()
    kit.run_due()
    kit.advance(seconds=15 * 86400)
    list(taskqueue.prune())
    assert not Task.objects.filter(pk=row.pk).exists()


# procrastinate


@behaviour
def procrastinate_a_lock_runs_jobs_one_after_the_other_in_order(kit):
    rows = [add(tasks.post, 1, n) for n in range(3)]
    for row in rows:
        [lease] = kit.claim_due()
        assert lease.id == row.pk
        taskqueue.complete_task(lease)


@behaviour
def procrastinate_a_queueing_lock_raises(kit):
    add(unique_key="k")
    with pytest.raises(AlreadyEnqueued):
        add(unique_key="k", on_conflict="raise")


@behaviour
def procrastinate_retries_wait_as_the_strategy_says(kit):
    row = add(tasks.scheduled, 1)
    kit.run_until_idle()
    waits = [event.data["backoff_ms"] for event in row.events.filter(kind="task.failed", data__terminal=False)]
    assert waits == [300_000, 900_000, 3_600_000]


@behaviour
def procrastinate_some_exceptions_are_not_retried(kit):
    row = add(unlucky, "key")
    kit.run_due()
    assert (status(row), now_of(row).attempts) == ("FAILED", 1)


@behaviour
def procrastinate_a_periodic_task_that_is_too_late_is_skipped(kit):
    plan(every=timedelta(hours=1), misfire_grace=timedelta(minutes=10))
    kit.travel_to(timedelta(seconds=3600 + 1800))
    assert (tick().enqueued, decisions()[-1]) == (0, "schedule.missed")


@behaviour
def procrastinate_a_stalled_job_is_found_and_its_late_report_rejected(kit):
    add()
    [lease] = claimed()
    kit.advance(seconds=3600)
    assert len(taskqueue.recover()) == 1
    with pytest.raises(LeaseLost):
        taskqueue.complete_task(lease)


# DBOS, Absurd


@behaviour
def dbos_a_completed_step_is_not_repeated(kit):
    row = add(flows.steps, "one", "two", kwargs={"fail_at": "two"})
    kit.run_until_idle()
    assert (status(row), flows.calls) == ("SUCCESS", ["one", "two"])


@behaviour
def dbos_a_workflow_is_forked_from_a_step(kit):
    row = add(flows.steps, "one", "two", "three")
    kit.run_due()
    taskqueue.retry([row.pk], resume=True, before="two")
    kit.run_due()
    assert flows.calls == ["one", "two", "three", "two", "three"]


@behaviour
def dbos_a_step_is_retried_by_itself(kit):
    row = add(careful)
    kit.run_until_idle()
    assert (status(row), now_of(row).attempts - now_of(row).refunds, RAN) == ("SUCCESS", 1, [1, 1])


@behaviour
def dbos_sleep_survives_and_holds_no_worker(kit):
    row = add(flows.nap, 60)
    kit.run_due()
    assert (status(row), claimed()) == ("PENDING", [])
    kit.advance(seconds=61)
    kit.run_due()
    assert now_of(row).outcome.result == "rested"


@behaviour
def dbos_recv_times_out(kit):
    row = add(flows.approval, "go", 60)
    kit.run_due()
    kit.advance(seconds=61)
    kit.run_due()
    assert now_of(row).outcome.result == "too late"


@behaviour
def dbos_a_rate_limit_holds_in_any_window(kit):
    for _ in range(3):
        add(lane="api")
    assert len(all_due(kit)) == 2
    kit.advance(seconds=61)
    assert len(all_due(kit)) == 1


@behaviour
def dbos_cancelling_a_parent_cancels_its_children(kit):
    row = add(flows.fan_out, [1, 2])
    [lease] = claimed(1)
    run_inline(lease)
    row.cancel()
    kit.run_due()
    assert {status(member) for member in Task.objects.exclude(pk=row.pk)} == {"CANCELLED"}


@behaviour
def dbos_debounce_runs_once_after_the_last_call(kit):
    for _ in range(3):
        add(unique_key="k", debounce=60)
        kit.advance(seconds=30)
    assert (claimed(), Task.objects.count()) == ([], 1)
    kit.advance(seconds=31)
    assert len(claimed()) == 1


@behaviour
def absurd_an_event_that_came_before_the_wait_is_received(kit):
    signal("go", {"by": 7})
    row = add(flows.approval, "go")
    kit.run_due()
    assert now_of(row).outcome.result == {"by": 7}


@behaviour
def absurd_a_sleeping_task_can_be_cancelled(kit):
    row = add(flows.nap)
    kit.run_due()
    row.cancel()
    kit.advance(seconds=7200)
    kit.run_due()
    assert status(row) == "CANCELLED"


# Celery


@behaviour
def celery_a_chain_hands_on_results(kit):
    row = chain(call(flows.double, 1), call(flows.double), call(flows.double)).enqueue()
    kit.run_due()
    assert now_of(row).outcome.result == 8


@behaviour
def celery_an_immutable_signature_ignores_the_result_before(kit):
    row = chain(call(flows.double, 1), call(flows.double, 5).immutable()).enqueue()
    kit.run_due()
    assert now_of(row).outcome.result == 10


@behaviour
def celery_link_is_called_with_the_result_of_a_success(kit):
    for number in (2, -1):
        chain(call(flows.fragile, number), call(flows.double)).enqueue()
        kit.run_until_idle()
    assert flows.calls == [2, 2, -1]


@behaviour
def celery_link_error_is_called_with_the_id_of_the_failure(kit):
    row = add(unlucky, "key", on_failure=call(flows.echo))
    kit.run_due()
    assert (status(row), flows.calls) == ("FAILED", [str(row.pk)])


@behaviour
def celery_a_task_is_replaced_by_another(kit):
    row = chain(call(replaced, 2), call(flows.double)).enqueue()
    kit.run_due()
    assert now_of(row).outcome.result == 8


@behaviour
def celery_a_chain_stops_at_its_first_failure(kit):
    row = chain(call(flows.fragile, -1), call(flows.double)).enqueue()
    kit.run_until_idle()
    assert (status(row), flows.calls) == ("FAILED", [-1])


@behaviour
def celery_a_group_returns_results_in_the_order_of_its_signatures(kit):
    row = add(flows.fan_out, [3, 1, 2])
    kit.run_due()
    assert now_of(row).outcome.result == [3, 1, 2]


@behaviour
def celery_beat_starts_at_its_start_time_and_ends_with_its_expiry(kit):
    now = clock.now(taskqueue.database())
    plan(every=60, starts_at=now + timedelta(seconds=600), ends_at=now + timedelta(seconds=700))
    kit.advance(seconds=540)
    assert runs() == []
    kit.advance(seconds=90)
    assert len(runs()) == 1
    kit.advance(seconds=600)
    taskqueue.complete_task(*claimed())
    tick()
    assert all(run.slot <= now + timedelta(seconds=700) for run in runs())


# APScheduler


@behaviour
def apscheduler_missed_runs_are_coalesced_into_one(kit):
    plan()
    kit.travel_to(timedelta(seconds=301))
    assert (tick().enqueued, decisions()[-1]) == (1, "schedule.missed")


@behaviour
def apscheduler_max_instances_skips_a_run(kit):
    plan()
    for _ in range(2):
        kit.advance(seconds=61)
    assert (len(runs()), decisions()[-1]) == (1, "schedule.skipped")


@behaviour
def apscheduler_a_job_is_rescheduled_with_another_trigger(kit):
    plan(every=3600).change(every=60)
    kit.advance(seconds=61)
    assert len(runs()) == 1


@pytest.mark.parametrize("check", BEHAVIOURS, ids=lambda check: check.__name__)
def test_it_behaves_as_users_of(check, kit):
    check(kit)


# Without a counterpart: a test here fails once there is one, and docs/behaviours.rst moves it


def fail_at_once(func: Any) -> None:
    row = add(func)
    run_inline(*claimed())
    raise TypeError(now_of(row).last_error["message"])


WITHOUT: dict[str, tuple[Callable[[], object], str]] = {
    "Oban: unique by arguments": (lambda: add(unique_by=["args"]), "unique_by="),
    "Oban: tags": (lambda: add(tags=["vip"]), "tags="),
    "GoodJob: a callback only on success": (lambda: Task.objects.enqueue_many([], on_success=call(flows.note)), "on_s"),
    "GoodJob: a cron in natural language": (lambda: plan(cron="every day at noon"), "five fields"),
    "GoodJob: a cron as a callable": (lambda: plan(cron=lambda: "@daily"), "give a text"),
    "Solid Queue: discarding at the limit": (lambda: add(unique_key="k", on_conflict="discard"), "discard"),
    "Solid Queue: a command as a string": (lambda: plan(task="print(1)", every=60), "not a registered task"),
    "procrastinate: a retry to another queue": (lambda: Retry(after=1, queue="emails"), "'queue'"),
    "DBOS: a timeout of a step": (lambda: fail_at_once(impatient), "'timeout'"),
    "django-celery-beat: one-off schedules": (lambda: plan(every=60, one_off=True), "no 'one_off'"),
    "django-celery-beat: the expiry of a run": (lambda: plan(every=60, expires=30), "no 'expires'"),
    "django-celery-beat: a count of runs": (lambda: plan(every=60, total_run_count=3), "no 'total_run_count'"),
    "django-celery-beat: solar times": (lambda: plan(cron="sunset"), "five fields"),
    "APScheduler: catching up all missed runs": (lambda: plan(every=60, coalesce=False), "no 'coalesce'"),
    "APScheduler: jitter": (lambda: plan(every=60, jitter=10), "no 'jitter'"),
    "APScheduler: several crons in one": (lambda: plan(cron=["0 8 * * *", "30 17 * * *"]), "give a text"),
    "APScheduler: calendar intervals": (lambda: plan(every="1 month"), "give a timedelta"),
}


@pytest.mark.parametrize("wish", WITHOUT)
def test_what_has_no_counterpart_is_refused(wish, kit):
    ask, words = WITHOUT[wish]
    with pytest.raises((TaskQueueError, TypeError), match=words):
        ask()
    assert not Schedule.objects.exists()
