"""The tick: what is due becomes tasks, once."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import IntegrityError, connections, transaction

from django_tasks_retry import taskqueue
from django_tasks_retry.errors import Abort
from django_tasks_retry.models import OperatorEvent, Schedule, Task
from tests import tasks
from tests.schedules.steps import MINUTE, decisions, last_decision, now, plan, row, runs, slots, tick
from tests.steps import claim_one

pytestmark = pytest.mark.usefixtures("database")


def test_nothing_is_enqueued_before_the_first_slot(travel):
    plan()
    travel(59)
    assert tick().enqueued == 0
    assert runs() == []


def test_a_slot_becomes_one_task_with_the_call_and_the_instant(travel):
    schedule = plan(task=tasks.add, every=MINUTE, args=[1], kwargs={"b": 2}, queue="emails", priority=7)
    travel(61)
    assert tick().enqueued == 1
    [task] = runs()
    assert (task.func_path, task.args, task.kwargs) == ("tests.tasks.add", [1], {"b": 2})
    assert (task.queue, task.priority, task.slot) == ("emails", 7, schedule.next_at)
    assert (row().next_at, row().last_at, row().last_outcome) == (task.slot + MINUTE, task.slot, "enqueued")
    assert tick().enqueued == 0
    taskqueue.complete_task(claim_one(), 3)


def test_the_next_instant_moves_on_with_each_slot(travel):
    first = plan(overlap="allow", every=MINUTE).next_at
    for _ in range(3):
        travel(60)
        tick()
    assert slots() == [first, first + MINUTE, first + 2 * MINUTE]
    assert row().next_at == first + 3 * MINUTE


def test_of_slots_that_nobody_enqueued_the_latest_runs_and_the_others_are_recorded(travel):
    first = plan().next_at
    travel(60 * 5 + 1)
    tick()
    assert slots() == [first + 4 * MINUTE]
    missed = last_decision()
    assert (missed.kind, missed.actor) == ("schedule.missed", "worker")
    last = first + 3 * MINUTE
    assert missed.data == {"first": first.isoformat(), "last": last.isoformat(), "count": 4}


def test_a_slot_older_than_late_is_missed(travel):
    first = plan(every=timedelta(hours=1), misfire_grace=timedelta(minutes=10)).next_at
    travel(3600 + 601)
    tick()
    assert runs() == []
    assert last_decision().data["last"] == first.isoformat()
    assert (row().last_outcome, row().next_at) == ("missed", first + timedelta(hours=1))


def test_skip_leaves_a_slot_out_while_the_previous_run_has_not_finished(travel):
    plan(overlap="skip", every=MINUTE)
    travel(61)
    tick()
    travel(60)
    tick()
    [first] = runs()
    skipped = last_decision()
    assert (skipped.kind, skipped.reason) == ("schedule.skipped", "the previous run had not finished")
    assert skipped.data == {"slot": (first.slot + MINUTE).isoformat(), "task": str(first.pk)}
    assert row().last_outcome == "skipped"


@pytest.mark.parametrize("end", ["failed", "cancelled"])
def test_a_run_that_failed_or_was_cancelled_does_not_end_a_schedule(travel, end):
    plan()
    travel(61)
    tick()
    if end == "failed":
        taskqueue.fail_task(claim_one(), Abort("no"))
    else:
        runs()[0].cancel()
    travel(60)
    tick()
    assert len(runs()) == 2


def test_queue_runs_the_latest_slot_once_the_previous_run_has_finished(travel):
    first = plan(overlap="queue", every=MINUTE).next_at
    travel(61)
    tick()
    for _ in range(3):
        travel(60)
        assert tick().enqueued == 0
    taskqueue.complete_task(claim_one())
    assert tick().enqueued == 1
    assert slots() == [first, first + 3 * MINUTE]
    assert last_decision().data["count"] == 2


def test_allow_lets_runs_overlap(travel):
    plan(overlap="allow", every=MINUTE)
    for _ in range(2):
        travel(60)
        tick()
    assert len(runs()) == 2


def test_after_its_end_a_schedule_is_due_no_more(travel):
    end = now() + timedelta(seconds=90)
    plan(every=MINUTE, ends_at=end)
    travel(61)
    tick()
    assert row().next_at is None
    travel(600)
    assert tick().enqueued == 0


def test_a_retry_of_a_run_belongs_to_the_schedule_and_to_no_slot(travel):
    plan()
    travel(61)
    tick()
    taskqueue.complete_task(claim_one())
    again = runs()[0].retry()
    assert (again.schedule_id, again.slot) == ("every minute", None)
    travel(60)
    tick()
    assert last_decision().kind == "schedule.skipped"


def test_the_database_itself_refuses_a_second_task_for_a_slot(database, travel):
    plan()
    travel(61)
    tick()
    [task] = runs()
    again = {"id": taskqueue.enqueue(taskqueue.EnqueueOptions(tasks.noop)).pk}
    columns = ", ".join(column.column for column in Task._meta.concrete_fields if column.column != "id")
    copy = f"INSERT INTO {Task._meta.db_table} (id, {columns}) SELECT %s, {columns} FROM {Task._meta.db_table}"
    other = str(again["id"]).replace("-", "")
    other = ("f" if other[-1] != "f" else "e").join([other[:-1], ""])
    with pytest.raises(IntegrityError), transaction.atomic(using=database), connections[database].cursor() as cursor:
        cursor.execute(f"{copy} WHERE id = %s", [other, task.pk if database != "default" else task.pk.hex])


def test_a_schedule_that_was_set_back_does_not_run_a_slot_again(travel):
    first = plan(overlap="allow", every=MINUTE).next_at
    travel(61)
    tick()
    Schedule.objects.update(next_at=first)
    assert tick().enqueued == 0
    assert row().next_at == first + MINUTE


@pytest.mark.fault("senseless_schedule_row")
@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ({"cron": "what? * * * *", "every": None}, "Bad minute"),
        ({"timezone": "Europe/Berlyn", "cron": "* * * * *", "every": None}, "Did you mean 'Europe/Berlin'"),
        ({"queue": "nowhere"}, "nowhere"),
        ({"args": {"no": "list"}}, "give a list"),
        ({"func_path": "tests.tasks.add"}, "cannot take this call"),
    ],
)
def test_a_row_that_makes_no_sense_is_left_alone_and_holds_up_no_other(travel, broken, says):
    plan("sound", every=MINUTE)
    plan("broken", every=MINUTE)
    Schedule.objects.filter(pk="broken").update(**broken)
    before = row("broken").next_at
    travel(61)
    ticked = tick()
    assert says in ticked.troubles["broken"]
    assert (ticked.enqueued, runs("broken"), row("broken").next_at) == (1, [], before)


def test_a_row_whose_function_is_not_known_here_waits_for_a_worker_that_knows_it(travel):
    plan()
    Schedule.objects.update(func_path="shop.tasks.later_release")
    travel(61)
    assert tick() == taskqueue.Ticked()
    assert taskqueue.next_due_in() is None


def test_schedules_of_code_are_ticked_by_those_who_list_them(travel):
    plan()
    Schedule.objects.update(source="code")
    travel(61)
    assert tick().enqueued == 0
    assert tick(listed=["every minute"]).enqueued == 1


def test_an_idle_worker_knows_when_the_next_slot_is_due(travel):
    assert taskqueue.next_due_in() is None
    plan("later", every=timedelta(hours=1))
    plan("soon", every=MINUTE)
    assert 59 < taskqueue.next_due_in() <= 60
    travel(61)
    assert taskqueue.next_due_in() <= -1
    assert taskqueue.next_due_in(without=["soon"]) > 3000


def test_a_full_batch_says_that_more_may_be_due(monkeypatch, travel):
    monkeypatch.setattr("django_tasks_retry.taskqueue.schedules.tick.BATCH", 2)
    for name in "abc":
        plan(name, every=MINUTE)
    travel(61)
    assert (tick().is_full, tick().is_full) == (True, False)
    assert Task.objects.count() == 3


def test_what_was_decided_by_rule_is_forgotten_after_a_while(travel):
    plan(misfire_grace=1, every=MINUTE)
    travel(100)
    tick()
    assert decisions() == ["schedule.created", "schedule.missed"]
    travel(91 * 86400)
    taskqueue.forget_skipped()
    assert list(OperatorEvent.objects.values_list("kind", flat=True)) == ["schedule.created"]
