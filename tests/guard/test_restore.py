"""The guard after a restore, against a foreign search_path, and its clock; fixtures."""

from __future__ import annotations

import json

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connections, transaction

from django_tasks_retry import clock, guard, taskqueue
from django_tasks_retry.errors import IllegalMove
from django_tasks_retry.models import Task, TaskEvent, TaskResult
from django_tasks_retry.rules.status import FINISHED, Status
from tests.guard.test_installation import ABILITIES, execute, is_missed, is_whole
from tests.steps import everything, kinds, now_of, task_in

LIVES = (*FINISHED, Status.RUNNING, Status.PENDING)
on_postgresql = pytest.mark.parametrize("on", ["postgresql"], indirect=True)
PRINTED = """
SELECT t.tgname, c.relname, pg_get_triggerdef(t.oid), obj_description(t.oid, 'pg_trigger'), pg_get_functiondef(t.tgfoid)
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE t.tgname LIKE 'dtr_guard_%%'
"""


@pytest.mark.plain_layout
@pytest.mark.fault("dump_and_restore")
@on_postgresql
@pytest.mark.parametrize("search_path", ["public", "pg_catalog", "pg_catalog, public", ""])
def test_a_guard_that_was_printed_and_read_again_is_whole(database, search_path):
    """As pg_dump and pg_restore do, who print under a search_path of their own; and pg_upgrade, by them."""
    with connections[database].cursor() as cursor:
        cursor.execute("SELECT set_config('search_path', %s, true)", [search_path])
        cursor.execute(PRINTED)
        printed = cursor.fetchall()
        assert {name for name, *_ in printed} == set(guard.postgresql_triggers(ABILITIES))
        for name, table, trigger, seal, function in printed:
            cursor.execute(f"DROP TRIGGER {name} ON public.{table}")
            cursor.execute(function)
            cursor.execute(trigger)
            cursor.execute(f"COMMENT ON TRIGGER {name} ON public.{table} IS '{seal}'")
        cursor.execute("SET LOCAL search_path = public")
    is_whole(database)


@pytest.mark.fault("dump_and_restore")
@on_postgresql
@pytest.mark.parametrize(
    "change",
    [
        "ALTER FUNCTION dtr_guard_move() SET search_path = public",
        "ALTER FUNCTION dtr_guard_move() SECURITY DEFINER",
        "ALTER FUNCTION dtr_guard_move() STABLE",
    ],
)
def test_a_function_that_works_otherwise_is_missed(database, change):
    execute(database, change)
    is_missed(database, "dtr_guard_move")


OWN_OPERATORS = """
CREATE SCHEMA mine;
CREATE FUNCTION mine.always(varchar, text) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT true';
CREATE FUNCTION mine.always(varchar, varchar) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT true';
CREATE FUNCTION mine.always(int, int) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT true';
CREATE FUNCTION mine.always(timestamptz, timestamptz) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT true';
CREATE FUNCTION mine.statement_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT ''1970-01-01''::timestamptz';
CREATE OPERATOR mine.= (LEFTARG = varchar, RIGHTARG = text, FUNCTION = mine.always);
CREATE OPERATOR mine.= (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = mine.always);
CREATE OPERATOR mine.= (LEFTARG = int, RIGHTARG = int, FUNCTION = mine.always);
CREATE OPERATOR mine.> (LEFTARG = timestamptz, RIGHTARG = timestamptz, FUNCTION = mine.always);
CREATE OPERATOR mine.<= (LEFTARG = timestamptz, RIGHTARG = timestamptz, FUNCTION = mine.always);
"""
UPDATE = "UPDATE public.django_tasks_retry_task SET {} WHERE true"


@pytest.mark.fault("session_with_its_own_operators")
@on_postgresql
@pytest.mark.parametrize("status", list(Status))
@pytest.mark.parametrize("path", ["mine, pg_catalog, public", "public, mine", "mine, public"])
def test_operators_of_a_session_change_no_verdict(database, status, path):
    task, _ = task_in(status)
    before = everything(task)
    execute(database, OWN_OPERATORS)
    for change in ("attempts = attempts + 1", 'last_error = \'{"message": "rewritten"}\'', "started_at = now()"):
        with pytest.raises(IntegrityError, match="IllegalMove"), transaction.atomic(using=database):
            execute(database, f"SET LOCAL search_path = {path}", UPDATE.format(change))
    with pytest.raises(IntegrityError, match="IllegalMove"), transaction.atomic(using=database):
        execute(
            database,
            f"SET LOCAL search_path = {path}",
            "INSERT INTO public.django_tasks_retry_taskevent (task_id, kind, ts, attempt, actor, data) "
            "SELECT id, 'task.made_up', now(), 99, 'me', '{}' FROM public.django_tasks_retry_task",
        )
    assert everything(task) == before


@pytest.mark.fault("session_with_its_own_operators")
@on_postgresql
@pytest.mark.parametrize("status", [Status.PENDING, Status.RUNNING])
def test_a_guard_that_is_installed_beside_foreign_operators_does_not_take_them(database, status):
    task, _ = task_in(status)
    never = OWN_OPERATORS.replace("SELECT true", "SELECT false")
    execute(database, never.replace("mine", "public").replace("CREATE SCHEMA public;", ""))
    execute(database, "DROP TRIGGER dtr_guard_delete ON django_tasks_retry_task")
    guard.install(database)
    with pytest.raises(IntegrityError), transaction.atomic(using=database):
        Task.objects.filter(pk=task.pk)._raw_delete(database)


@pytest.mark.fault("clock_gone_or_shifted")
@pytest.mark.plain_layout
@on_postgresql
@pytest.mark.parametrize(
    "change",
    [
        "DROP FUNCTION django_tasks_retry_now() CASCADE",
        "CREATE OR REPLACE FUNCTION django_tasks_retry_now() RETURNS timestamptz LANGUAGE sql STABLE AS "
        "'SELECT now() + interval ''1 year'''",
        "CREATE OR REPLACE FUNCTION django_tasks_retry_now() RETURNS timestamptz LANGUAGE sql STABLE AS "
        "'SELECT pg_catalog.statement_timestamp() OPERATOR(pg_catalog.+) interval ''9 seconds'''",
        "ALTER FUNCTION django_tasks_retry_now() IMMUTABLE",
        "ALTER FUNCTION django_tasks_retry_now() SET search_path = public",
    ],
)
def test_a_clock_that_is_gone_or_wrong_is_missed_and_put_right(database, change):
    execute(database, change)
    is_missed(database, clock.FUNCTION)
    guard.install_after_migrate(database)
    is_whole(database)


@pytest.mark.fault("clock_gone_or_shifted")
def test_a_clock_that_a_test_has_shifted_is_not_missed(database, travel):
    travel(3600)
    is_whole(database)


@pytest.mark.fault("clock_gone_or_shifted")
def test_migrate_is_not_refused_for_want_of_what_it_installs(database, monkeypatch):
    monkeypatch.setattr("sys.argv", ["manage.py", "migrate"])
    trigger = (
        "dtr_guard_move" if connections[database].vendor == "sqlite" else "dtr_guard_move ON django_tasks_retry_task"
    )
    execute(database, f"DROP TRIGGER {trigger}")
    from django_tasks_retry import checks

    assert checks.check_databases(databases=[database]) == []


def told(task):
    """All but the microseconds, which Django's JSON leaves out."""
    row = now_of(task)
    results = TaskResult.objects.filter(pk=task.pk).values_list("status", "attempts", "result")
    return row.status, row.attempts, row.locked_by, row.last_error, kinds(task), list(results)


@pytest.mark.fault("fixtures")
def test_tasks_of_every_status_travel_in_a_fixture(committed, tmp_path):
    lived = [task_in(status)[0] for status in LIVES]
    before = [told(task) for task in lived]
    fixture = tmp_path / "tasks.json"
    call_command("dumpdata", "django_tasks_retry", database=committed, output=str(fixture), verbosity=0)
    call_command("flush", database=committed, interactive=False, verbosity=0)
    call_command("loaddata", str(fixture), database=committed, verbosity=0)
    assert [told(task) for task in lived] == before
    is_whole(committed)
    with pytest.raises(IntegrityError), transaction.atomic(using=committed):
        Task.objects.filter(pk=lived[0].pk).update(priority=1)
    running = next(task for task in lived if task.status == "RUNNING")
    taskqueue.cancel([running.pk])
    assert kinds(running)[-1] == "task.cancelled"


@pytest.mark.fault("fixtures")
def test_a_fixture_changes_no_task_that_exists(committed, tmp_path):
    task, _ = task_in(Status.SUCCESS)
    fixture = tmp_path / "tasks.json"
    call_command("dumpdata", "django_tasks_retry", database=committed, output=str(fixture), verbosity=0)
    rows = json.loads(fixture.read_text(encoding="utf-8"))
    rows[0]["fields"]["args"] = ["rewritten"]
    fixture.write_text(json.dumps(rows))
    with pytest.raises(IllegalMove, match="a fixture adds tasks"):
        call_command("loaddata", str(fixture), database=committed, verbosity=0)
    assert now_of(task).args == task.args
    is_whole(committed)


@pytest.mark.fault("fixtures")
@pytest.mark.parametrize("model", [Task, TaskResult, TaskEvent])
def test_a_raw_save_opens_nothing_outside_of_a_transaction(committed, model):
    row = model(pk=Task(id="01890000-0000-7000-8000-000000000000").pk if model is not TaskEvent else 1)
    with pytest.raises(IllegalMove, match="in a transaction only"):
        row.save_base(raw=True, using=committed)
    is_whole(committed)
