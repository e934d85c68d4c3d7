"""Schedules in the shell: what the console shows of them, and the same verbs."""

from __future__ import annotations

import pytest
from django.db import connections

from django_tasks_retry import taskqueue
from django_tasks_retry.models import OperatorEvent, Schedule, Task
from tests import tasks


@pytest.fixture
def nightly(database) -> str:
    secret = {"password": "hunter2"}
    taskqueue.create_schedule(name="nightly", task=tasks.noop, cron="30 3 * * *", timezone="UTC", kwargs=secret)
    return "nightly"


def test_they_are_listed_with_their_next_slot(cli, nightly):
    assert cli("schedules").out.count("\n") == 2
    record = cli("schedules", "--json").record
    assert (record["name"], record["cron"], record["state"]) == ("nightly", "30 3 * * *", "active")
    assert "hunter2" not in str(record)
    assert cli("schedules", "show", "nightly").out.count("\n") == 3
    behind_the_noun, behind_the_verb = ("--json", "show", "nightly"), ("show", "nightly", "--json")
    assert {cli("schedules", *words).record["name"] for words in (behind_the_noun, behind_the_verb)} == {"nightly"}


def test_there_may_be_none(cli):
    assert cli("schedules").code == 4
    assert {cli("schedules", verb, "x").code for verb in ("show", "resume", "run")} == {4}


@pytest.mark.parametrize(
    ("verb", "kind"),
    [("pause", "schedule.paused"), ("resume", "schedule.resumed"), ("run", "schedule.run_now")],
)
def test_every_change_is_kept_with_its_author_and_reason(verb, kind, cli, nightly):
    if verb == "resume":
        taskqueue.pause("nightly", kind="schedule", by="x", reason="y")
    answer = cli("schedules", verb, "nightly", "--reason", "INC-204")
    assert answer.code == 0
    event = OperatorEvent.objects.latest("id")
    assert (event.kind, event.subject, event.reason) == (kind, "nightly", "INC-204")
    assert event.actor.startswith("cli:")


def test_what_is_so_already_is_refused(cli, nightly):
    assert cli("schedules", "resume", "nightly").code == 5
    assert cli("schedules", "pause", "nightly", "--reason", "x").code == 0
    assert cli("schedules", "pause", "nightly", "--reason", "x").code == 5
    assert Schedule.objects.get().paused_at is not None


def test_a_run_beside_the_plan_answers_with_its_task(cli, nightly):
    assert cli("schedules", "run", "nightly").out.strip() == str(Task.objects.get().pk)


def test_metrics_can_be_had_from_the_shell(cli):
    scraped = cli("stats", "--prometheus")
    assert scraped.code == 0
    assert "# TYPE " in scraped.out


@pytest.mark.fault("senseless_schedule_row")
def test_one_that_cannot_be_read_is_listed_among_the_others(cli, nightly, database):
    taskqueue.create_schedule(name="broken", task=tasks.noop, every=60)
    with connections[database].cursor() as cursor:
        cursor.execute(f"UPDATE {Schedule._meta.db_table} SET args = %s WHERE name = 'broken'", [f"[{'9' * 5000}]"])
    listed = cli("schedules")
    assert (listed.code, listed.out.count("\n")) == (0, 3)
    assert "It cannot be read: args." in cli("schedules", "show", "broken").out
    assert cli("schedules", "pause", "broken", "--reason", "poison").code == 0
