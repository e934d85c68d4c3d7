"""Planning and deciding: what a schedule may ask for, and what people may do with it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from zoneinfo import ZoneInfo

import pytest

from django_tasks_retry import schedule, taskqueue
from django_tasks_retry.errors import InvalidCall, InvalidSchedule, TaskQueueError, UnknownQueue, UnregisteredTask
from django_tasks_retry.models import Schedule, Task
from tests import tasks
from tests.schedules.steps import MINUTE, decisions, last_decision, now, plan, row, runs, tick

pytestmark = pytest.mark.usefixtures("database")


def test_a_schedule_is_made_from_a_task_its_arguments_and_a_timing(settings):
    settings.TIME_ZONE = "Asia/Kathmandu"
    made = Schedule.objects.create(
        name="sums",
        task=tasks.add,
        args=[1],
        kwargs={"b": 2},
        cron="30 8 * * mon-fri",
        misfire_grace=timedelta(hours=1),
    )
    assert (made.func_path, made.args, made.kwargs) == ("tests.tasks.add", [1], {"b": 2})
    assert (made.timezone, made.overlap, made.misfire_grace, made.source) == (
        "Asia/Kathmandu",
        "skip",
        3600.0,
        "database",
    )
    local = row("sums").next_at.astimezone(ZoneInfo("Asia/Kathmandu"))
    assert (local.hour, local.minute) == (8, 30)
    assert row("sums").next_at > now()
    assert decisions("sums") == ["schedule.created"]


def test_a_schedule_is_made_where_it_is_missing():
    for made in (True, False):
        asked = {"task": tasks.noop, "every": MINUTE}
        assert Schedule.objects.get_or_create(name="once", defaults=asked)[1] is made


def test_a_schedule_is_changed_where_it_exists():
    first = Schedule.objects.update_or_create(name="once", defaults={"task": tasks.add, "args": [1, 2], "every": 60})
    again = Schedule.objects.update_or_create(name="once", defaults={"args": [3, 4]})
    assert (first[1], again[1], row("once").args, row("once").next_at) == (True, False, [3, 4], first[0].next_at)


def test_a_path_is_looked_up_and_never_imported():
    assert plan("by path", "tests.tasks.noop", every=5).task is tasks.noop
    with pytest.raises(InvalidSchedule, match=r"Did you mean 'tests\.tasks\.noop'"):
        plan("by path", "tests.tasks.nop", every=5)
    with pytest.raises(InvalidSchedule, match="not a registered task"):
        plan("by path", "os.system", every=5)


@pytest.mark.parametrize(
    ("asked", "error", "says"),
    [
        ({"task": tasks.add, "every": 5}, InvalidCall, "missing a required argument: 'a'"),
        ({"task": tasks.add, "args": [1, 2, 3], "every": 5}, InvalidCall, "too many positional"),
        ({"task": tasks.noop, "args": [object()], "every": 5}, InvalidCall, r"args\[0\]"),
        ({"task": len, "every": 5}, UnregisteredTask, "not a registered task"),
        ({"task": tasks.noop, "queue": "emial", "every": 5}, UnknownQueue, "Did you mean 'emails'"),
        ({"task": tasks.noop, "cron": "bad"}, InvalidSchedule, "five fields"),
        ({"task": tasks.noop, "every": 5, "timezone": "Mars/Base"}, InvalidSchedule, "not known"),
        ({"task": tasks.noop, "every": "5"}, InvalidSchedule, "give a timedelta"),
        ({"task": tasks.noop, "every": 5, "misfire_grace": -1}, InvalidSchedule, "misfire_grace=-1"),
        ({"task": tasks.noop, "every": 5, "overlap": "skipp"}, InvalidSchedule, "Did you mean 'skip'"),
        ({"task": tasks.noop, "every": 5, "starts_at": "soon"}, InvalidSchedule, "starts_at='soon'"),
        ({"task": tasks.noop, "every": 5, "name": " "}, InvalidSchedule, "1 to 128 characters"),
        ({"task": tasks.noop, "every": 5, "name": "x" * 129}, InvalidSchedule, "1 to 128 characters"),
        ({"task": tasks.noop, "evry": 5}, InvalidSchedule, "Did you mean 'every'"),
        ({"task": tasks.noop, "cron": "@daily", "ends_at": datetime(2001, 1, 1, tzinfo=UTC)}, InvalidSchedule, "never"),
    ],
)
def test_what_cannot_run_is_refused_and_nothing_is_stored(asked, error, says):
    with pytest.raises(error, match=says) as refusal:
        Schedule.objects.create(**{"name": "wrong", **asked})
    assert isinstance(refusal.value, TaskQueueError)
    assert not Schedule.objects.exists()


def test_a_name_is_taken_once():
    plan()
    with pytest.raises(InvalidSchedule, match="already"):
        plan()


def test_a_new_timing_counts_from_now(travel):
    first = plan(cron="0 0 1 1 *").next_at
    row().change(cron="* * * * *", by="ann", reason="more often")
    assert now() < row().next_at <= now() + MINUTE < first
    assert (last_decision().kind, last_decision().actor, last_decision().reason) == (
        "schedule.changed", "ann", "more often",
    )  # fmt: skip
    row().change(cron="", every=timedelta(hours=1))
    assert row().next_at == pytest.approx(now() + timedelta(hours=1), abs=timedelta(seconds=5))


def test_a_retimed_schedule_fires_nothing_for_the_past(travel):
    plan(every=MINUTE)
    travel(600)
    row().change(every=120)
    assert tick().enqueued == 0


def test_new_arguments_leave_the_next_slot_alone(travel):
    first = plan(task=tasks.add, every=MINUTE, args=[1, 2]).next_at
    travel(30)
    row().change(args=[3, 4], overlap="allow", misfire_grace=5)
    assert (row().next_at, row().args) == (first, [3, 4])
    with pytest.raises(InvalidCall, match="missing"):
        row().change(args=[3])
    assert last_decision().data == {"changed": ["args", "overlap", "misfire_grace"]}


def test_a_change_of_nothing_is_no_decision():
    plan()
    row().change(every=60)
    assert decisions() == ["schedule.created"]


def test_a_paused_schedule_enqueues_nothing_and_a_resumed_one_nothing_for_the_past(travel):
    plan()
    row().pause(by="ann", reason="quarter end")
    assert (row().paused_by, row().reason) == ("ann", "quarter end")
    travel(600)
    assert tick().enqueued == 0
    row().resume(by="ben", reason="done")
    assert tick().enqueued == 0
    assert row().next_at > now()
    travel(61)
    assert tick().enqueued == 1
    assert decisions() == ["schedule.created", "schedule.paused", "schedule.resumed"]


def test_an_old_word_is_answered_with_the_new_one():
    with pytest.raises(InvalidSchedule, match="Did you mean 'misfire_grace'"):
        plan(late=5)
    with pytest.raises(InvalidSchedule, match="Did you mean 'misfire_grace'"):
        schedule("@daily", late=5)


def test_who_pauses_or_resumes_again_learns_that_nothing_changed():
    plan()
    assert [taskqueue.pause("every minute", kind="schedule") for _ in range(2)] == [True, False]
    assert [taskqueue.resume("every minute", kind="schedule") for _ in range(2)] == [True, False]


def test_an_interval_keeps_its_rhythm_over_a_pause(travel):
    first = plan().next_at
    row().pause()
    travel(90)
    row().resume()
    assert (row().next_at - first) % MINUTE == timedelta(0)


def test_run_now_enqueues_one_beside_the_plan_also_while_it_is_paused(travel):
    first = plan().next_at
    row().pause()
    task = row().run_now(by="ann", reason="to see")
    assert (task.schedule_id, task.slot, task.status) == ("every minute", None, "PENDING")
    assert row().next_at == first
    assert last_decision().data == {"task": str(task.pk)}
    assert len(runs()) == 1


def test_a_deleted_schedule_leaves_its_tasks(travel):
    plan()
    travel(61)
    tick()
    taskqueue.delete_schedule("every minute", by="ann")
    assert not Schedule.objects.exists()
    assert Task.objects.get().schedule_id == "every minute"
    assert decisions()[-1] == "schedule.deleted"


def test_verbs_about_an_unknown_schedule_say_so():
    plan("nightly", every=60)
    for verb in (partial(taskqueue.pause, kind="schedule"), taskqueue.run_schedule_now, taskqueue.delete_schedule):
        with pytest.raises(InvalidSchedule, match="Did you mean 'nightly'"):
            verb("nightli")


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_without_use_tz_starts_and_ends_are_local_times(settings, zone, travel):
    settings.USE_TZ, settings.TIME_ZONE = False, zone
    start = datetime.now(ZoneInfo(zone)).replace(tzinfo=None, microsecond=0) + timedelta(minutes=5)
    plan(every=MINUTE, starts_at=start)
    assert row().next_at == start.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    travel(301)
    assert tick().enqueued == 1
    assert runs()[0].slot == start.replace(tzinfo=ZoneInfo(zone))
