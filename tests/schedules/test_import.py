"""Schedules of other queues: a dry run tells what comes along and what does not; nothing is guessed."""

from __future__ import annotations

import runpy

import pytest
from django.core.management import CommandError, call_command
from django.db import connections

from django_tasks_retry.models import Schedule
from tests.docs.pages import DOCS
from tests.schedules.steps import row

COMMAND = DOCS / "deploy" / "import_schedules.py"

BEAT = """
CREATE TABLE django_celery_beat_intervalschedule (id integer, every integer, period varchar(24));
CREATE TABLE django_celery_beat_crontabschedule (id integer, minute varchar(240), hour varchar(96),
    day_of_month varchar(124), month_of_year varchar(64), day_of_week varchar(64), timezone varchar(63));
CREATE TABLE django_celery_beat_periodictask (id integer, name varchar(200), task varchar(200), args text, kwargs text,
    queue varchar(200), priority integer, enabled bool, one_off bool, start_time timestamp, interval_id integer,
    crontab_id integer, solar_id integer, clocked_id integer);
INSERT INTO django_celery_beat_intervalschedule VALUES (1, 10, 'minutes');
INSERT INTO django_celery_beat_crontabschedule VALUES (1, '30', '8', '*', '*', 'mon-fri', 'Europe/Berlin');
INSERT INTO django_celery_beat_periodictask VALUES
    (1, 'sums', 'tests.tasks.add', '[1, 2]', '{}', NULL, NULL, TRUE, FALSE, NULL, NULL, 1, NULL, NULL),
    (2, 'off', 'tests.tasks.noop', '[]', '{"a": 1}', 'emails', NULL, FALSE, FALSE, NULL, 1, NULL, NULL, NULL),
    (3, 'once', 'tests.tasks.noop', '[]', '{}', NULL, NULL, TRUE, TRUE, NULL, 1, NULL, NULL, NULL),
    (4, 'sunset', 'tests.tasks.noop', '[]', '{}', NULL, NULL, TRUE, FALSE, NULL, NULL, NULL, 1, NULL),
    (5, 'foreign', 'proj.tasks.gone', '[]', '{}', NULL, NULL, TRUE, FALSE, NULL, 1, NULL, NULL, NULL),
    (6, 'misfit', 'tests.tasks.add', '[1]', '{}', NULL, NULL, TRUE, FALSE, NULL, 1, NULL, NULL, NULL),
    (7, 'cleanup', 'celery.backend_cleanup', '[]', '{}', NULL, NULL, TRUE, FALSE, NULL, 1, NULL, NULL, NULL)
"""
Q2 = """
CREATE TABLE django_q_schedule (id integer, name varchar(100), func varchar(256), args text, kwargs text,
    schedule_type varchar(2), minutes integer, repeats integer, next_run timestamp WITH TIME ZONE, cron varchar(100));
INSERT INTO django_q_schedule VALUES
    (1, 'minutes', 'tests.tasks.add', '(1, 2)', NULL, 'I', 5, -1, '2026-07-01 08:30:00+00:00', NULL),
    (2, 'weekly', 'tests.tasks.noop', NULL, 'a=1, b=''x''', 'W', NULL, -1, '2026-07-01 08:30:00+00:00', NULL),
    (3, 'quarterly', 'tests.tasks.noop', '7', '{''a'': 1}', 'Q', NULL, 0, '2026-07-01 08:30:00+00:00', NULL),
    (4, 'cron', 'tests.tasks.noop', NULL, NULL, 'C', NULL, -1, '2026-07-01 08:30:00+00:00', '0 22 * * 1-5'),
    (5, 'once', 'tests.tasks.noop', NULL, NULL, 'O', NULL, -1, '2026-07-01 08:30:00+00:00', NULL),
    (6, 'thrice', 'tests.tasks.noop', NULL, NULL, 'D', NULL, 3, '2026-07-01 08:30:00+00:00', NULL),
    (8, 'odd', 'tests.tasks.noop', NULL, NULL, 'X', NULL, -1, '2026-07-01 08:30:00+00:00', NULL),
    (7, 'code', 'tests.tasks.noop', '__import__(''os'')', NULL, 'D', NULL, -1, '2026-07-01 08:30:00+00:00', NULL)
"""

BEAT_WISHES = """
ALTER TABLE django_celery_beat_periodictask ADD COLUMN expires timestamp WITH TIME ZONE;
ALTER TABLE django_celery_beat_periodictask ADD COLUMN expire_seconds integer;
ALTER TABLE django_celery_beat_periodictask ADD COLUMN routing_key varchar(200);
ALTER TABLE django_celery_beat_periodictask ADD COLUMN headers text DEFAULT '{}';
UPDATE django_celery_beat_periodictask SET expires = '2100-01-01 00:00:00+00:00', expire_seconds = 30, priority = 9,
    routing_key = 'mail', headers = '{"a": 1}' WHERE name = 'sums'
"""
Q2_WISHES = """
ALTER TABLE django_q_schedule ADD COLUMN hook varchar(256);
UPDATE django_q_schedule SET hook = 'app.after' WHERE name = 'cron'
"""


def fill(using: str, script: str) -> None:
    with connections[using].cursor() as cursor:
        if connections[using].vendor == "sqlite":
            script = script.replace("timestamp WITH TIME ZONE", "datetime").replace("timestamp", "datetime")
        for statement in script.strip().split(";\n"):
            cursor.execute(statement)


def imported(*arguments: str, capsys) -> dict[str, str]:
    call_command(runpy.run_path(str(COMMAND))["Command"](), *arguments)
    lines = capsys.readouterr().out.splitlines()
    return {line[2:].partition(": ")[0]: line[0] + line[2:].partition(": ")[2] for line in lines if line[0] in "+-"}


def refused(*arguments: str, capsys) -> str:
    with pytest.raises(CommandError) as error:
        imported(*arguments, capsys=capsys)
    return str(error.value)


def test_periodic_tasks_of_django_celery_beat(database, capsys):
    fill(database, BEAT)
    said = imported("--from", "django-celery-beat", capsys=capsys)
    assert not Schedule.objects.exists()
    assert said["sums"] == "+tests.tasks.add · 30 8 * * mon-fri"
    assert said["off"] == "+tests.tasks.noop · every 600 s · paused"
    assert "Enqueue it with an eta" in said["once"]
    assert "solar" in said["sunset"]
    assert "not a registered task" in said["foreign"]
    assert "missing a required argument" in said["misfit"]
    imported("--from", "django-celery-beat", "--apply", capsys=capsys)
    assert (row("sums").timezone, row("sums").args) == ("Europe/Berlin", [1, 2])
    assert (row("off").queue, row("off").kwargs, row("off").reason) == (
        "emails",
        {"a": 1},
        "it was switched off in its source",
    )
    again = imported("--from", "django-celery-beat", "--apply", capsys=capsys)
    assert "exists already" in again["sums"]
    assert Schedule.objects.count() == 2


def test_schedules_of_django_q2(database, capsys, settings):
    settings.TIME_ZONE = "UTC"
    fill(database, Q2)
    said = imported("--from", "django-q2", "--apply", capsys=capsys)
    assert {name for name, text in said.items() if text[0] == "+"} == {"minutes", "weekly", "quarterly", "cron"}
    assert (row("minutes").every, row("minutes").args) == (300, [1, 2])
    assert (row("weekly").cron, row("weekly").kwargs) == ("30 8 * * 3", {"a": 1, "b": "x"})
    assert (row("quarterly").cron, row("quarterly").args) == ("30 8 1 1,4,7,10 *", [7])
    assert row("quarterly").paused_at is not None
    assert "3 more runs" in said["thrice"]
    assert "not plain values" in said["code"]
    assert "'X' has no counterpart" in said["odd"]


def test_wishes_that_a_schedule_cannot_keep_are_named(database, capsys):
    for script in (BEAT, BEAT_WISHES, Q2, Q2_WISHES):
        fill(database, script)
    beat = imported("--from", "django-celery-beat", "--apply", capsys=capsys)
    left = 'without expire_seconds=30, priority=9, routing_key=mail, headers={"a": 1}'
    assert beat["sums"] == f"+tests.tasks.add · 30 8 * * mon-fri · {left}"
    assert "without" not in beat["off"]
    assert row("sums").ends_at.year == 2100
    q2 = imported("--from", "django-q2", capsys=capsys)
    assert q2["cron"] == "+tests.tasks.noop · 0 22 * * 1-5 · without hook=app.after"


@pytest.mark.parametrize("source", ["django-celery-beat", "django-q2"])
def test_a_source_that_is_not_there_says_so(database, source, capsys):
    assert "has no table" in refused("--from", source, capsys=capsys)
