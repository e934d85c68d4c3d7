"""Schedules in code and settings: declared, checked, followed by rows, and stopped when they are gone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.core.checks import run_checks
from django.db import connections

from django_tasks_retry import schedule, taskqueue
from django_tasks_retry.errors import InvalidSchedule
from django_tasks_retry.models import Schedule
from django_tasks_retry.rules.schedules.declarations import SCHEDULES_ATTRIBUTE, ScheduleDeclaration
from django_tasks_retry.taskqueue.schedules import sync
from django_tasks_retry.taskqueue.schedules.sync import schedule_problems
from tests import tasks
from tests.schedules.steps import MINUTE, decisions, now, plan, row, runs, tick

NOW = datetime(2026, 7, 1, tzinfo=UTC)


@pytest.fixture
def declare(monkeypatch):
    """Put these declarations on a function, as decorators would."""

    def on(function, *declared):
        monkeypatch.setattr(function.func, SCHEDULES_ATTRIBUTE, declared, raising=False)

    return on


def in_settings(configure, **schedules):
    configure(SCHEDULES=schedules)


def worker_lists(name, *schedules):
    facts = {"host": "h", "pid": 1, "version": "1", "processes": 1, "slots": 1}
    taskqueue.register_worker(name, "default", schedules=list(schedules), **facts)


def test_decorators_attach_what_they_are_given_in_the_order_they_are_read():
    @schedule("30 8 * * mon-fri", timezone="Europe/Berlin", overlap="skip", misfire_grace=timedelta(hours=1))
    @schedule(every=600, name="often", kwargs={"region": "us"})
    def report(region: str = "emea") -> None: ...

    assert getattr(report, SCHEDULES_ATTRIBUTE) == (
        ScheduleDeclaration(cron="30 8 * * mon-fri", timezone="Europe/Berlin", misfire_grace=timedelta(hours=1)),
        ScheduleDeclaration(name="often", every=600, kwargs={"region": "us"}),
    )


def test_the_decorator_stands_below_task():
    with pytest.raises(InvalidSchedule, match="write it below"):
        schedule("@daily")(tasks.noop)


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        (ScheduleDeclaration(cron="0 25 * * *"), "bad hour"),
        (ScheduleDeclaration(cron="@daily", timezone="Europe/Berlyn"), "Did you mean"),
        (ScheduleDeclaration(cron="0 0 30 2 *"), "bad day-of-month"),
        (ScheduleDeclaration(), "one of the two"),
        (ScheduleDeclaration(every=60, args=[1]), "cannot take this call"),
        (ScheduleDeclaration(every=60, name="x" * 200), "1 to 128"),
    ],
)
def test_system_checks_say_what_is_wrong_with_code(declare, declared, says):
    declare(tasks.explode if not declared.args else tasks.optional_nothing, declared)
    [(where, why)] = schedule_problems("default", NOW)
    assert "@schedule on tests.tasks." in where
    assert says in why


def test_the_check_runs_with_all_others(declare):
    declare(tasks.noop, ScheduleDeclaration(cron="0 25 * * *"))
    assert "django_tasks_retry.E008" in {message.id for message in run_checks()}


def test_doubled_names_are_an_error(declare, configure):
    declare(tasks.noop, ScheduleDeclaration(cron="@daily"), ScheduleDeclaration(cron="@hourly"))
    in_settings(configure, nightly={"task": "tests.tasks.noop", "cron": "@daily"})
    [(_, why)] = schedule_problems("default", NOW)
    assert "'tests.tasks.noop' is taken by @schedule on tests.tasks.noop" in why


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"cron": "@daily"}, "'task'"),
        ("@daily", "'task'"),
        ({"task": "tests.tasks.nop", "cron": "@daily"}, "Did you mean 'tests.tasks.noop'"),
        ({"task": "tests.tasks.noop", "evry": 5}, "Did you mean 'every'"),
    ],
)
def test_system_checks_say_what_is_wrong_with_the_settings(configure, asked, says):
    in_settings(configure, nightly=asked)
    [(where, why)] = schedule_problems("default", NOW)
    assert "['SCHEDULES']['nightly']" in where
    assert says in why


def test_one_that_has_ended_is_no_error(declare):
    declare(tasks.noop, ScheduleDeclaration(cron="@daily", ends_at=datetime(2020, 1, 1, tzinfo=UTC)))
    assert list(schedule_problems("default", NOW)) == []


def test_rows_follow_the_code(database, declare, configure):
    declare(tasks.noop, ScheduleDeclaration(cron="@daily", timezone="Europe/Berlin"))
    in_settings(configure, nightly={"task": "tests.tasks.add", "args": [1, 2], "every": 60})
    list(taskqueue.sync_schedules())
    assert {(one.name, one.source, one.is_editable) for one in Schedule.objects.all()} == {
        ("tests.tasks.noop", "code", False), ("nightly", "settings", False),
    }  # fmt: skip
    first = row("nightly").next_at
    list(taskqueue.sync_schedules())
    assert (row("nightly").next_at, decisions("nightly")) == (first, ["schedule.created"])
    in_settings(configure, nightly={"task": "tests.tasks.add", "args": [3, 4], "every": 60})
    list(taskqueue.sync_schedules())
    assert (row("nightly").args, row("nightly").next_at) == ([3, 4], first)
    declare(tasks.noop, ScheduleDeclaration(cron="@hourly", timezone="Europe/Berlin"))
    list(taskqueue.sync_schedules())
    assert now() < row("tests.tasks.noop").next_at <= now() + timedelta(hours=1)


def test_code_cannot_be_edited_or_deleted_but_paused(database, declare, travel):
    declare(tasks.noop, ScheduleDeclaration(every=60, name="coded"))
    list(taskqueue.sync_schedules())
    with pytest.raises(InvalidSchedule, match="change it there"):
        row("coded").change(every=5)
    with pytest.raises(InvalidSchedule, match="remove it there"):
        taskqueue.delete_schedule("coded")
    row("coded").pause(reason="quarter end")
    list(taskqueue.sync_schedules())
    travel(61)
    assert tick(listed=["coded"]).enqueued == 0


def test_a_row_of_the_database_keeps_its_name(database, declare, caplog):
    plan("mine", every=MINUTE)
    declare(tasks.noop, ScheduleDeclaration(name="mine", cron="@daily"))
    list(taskqueue.sync_schedules())
    assert row("mine").source == "database"
    assert "Rename one of them" in caplog.text


def test_a_broken_one_costs_itself_alone(database, declare, caplog):
    declare(
        tasks.noop,
        ScheduleDeclaration(name="broken", cron="0 25 * * *"),
        ScheduleDeclaration(name="sound", cron="@daily"),
    )
    list(taskqueue.sync_schedules())
    assert [one.name for one in Schedule.objects.all()] == ["sound"]
    assert "bad hour" in caplog.text


@pytest.mark.fault("schedule_changes_in_rolling_deploy")
def test_what_left_the_code_stops_when_no_live_worker_lists_it_and_returns_with_the_code(database, declare, travel):
    declare(tasks.noop, ScheduleDeclaration(name="coded", every=60))
    list(taskqueue.sync_schedules())
    worker_lists("old", "coded")
    worker_lists("new")
    assert taskqueue.stop_vanished() == []
    taskqueue.deregister_worker("old", "default")
    assert taskqueue.stop_vanished() == ["coded"]
    assert decisions("coded")[-1] == "schedule.vanished"
    travel(600)
    assert tick(listed=["coded"]).enqueued == 0
    list(taskqueue.sync_schedules())
    assert (row("coded").vanished_at, row("coded").next_at > now()) == (None, True)
    travel(61)
    assert tick(listed=["coded"]).enqueued == 1
    assert len(runs("coded")) == 1


def test_a_worker_that_was_killed_lists_nothing_once_its_heartbeat_is_old(database, declare, travel):
    declare(tasks.noop, ScheduleDeclaration(name="coded", every=60))
    list(taskqueue.sync_schedules())
    worker_lists("killed", "coded")
    travel(31)
    assert taskqueue.stop_vanished() == ["coded"]


def test_what_vanished_may_be_deleted(database, declare):
    declare(tasks.noop, ScheduleDeclaration(name="coded", every=60))
    list(taskqueue.sync_schedules())
    taskqueue.stop_vanished()
    taskqueue.delete_schedule("coded")
    assert not Schedule.objects.exists()


@pytest.mark.fault("schedule_changes_in_rolling_deploy")
def test_a_page_of_schedules_stands_before_the_next_is_read(database, configure, monkeypatch):
    """Or 10,000 of them would begin anew whenever the time of a call is over on a busy machine."""
    monkeypatch.setattr(sync, "PAGE", 2)
    in_settings(configure, **{f"every-{n}": {"task": "tests.tasks.noop", "every": 60} for n in range(5)})
    pages = taskqueue.sync_schedules()
    assert (next(pages), Schedule.objects.count()) == (2, 2)
    assert (list(pages), Schedule.objects.count()) == ([2, 1], 5)


def test_ten_times_as_many_schedules_take_no_more_statements(database, configure, django_assert_max_num_queries):
    in_settings(configure, **{f"every-{n}": {"task": "tests.tasks.noop", "every": 60} for n in range(200)})
    with django_assert_max_num_queries(12, connection=connections[database]):
        list(taskqueue.sync_schedules())
    assert Schedule.objects.count() == 200
    assert len(decisions("every-7")) == 1
