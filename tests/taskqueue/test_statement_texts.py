"""`manage.py tasksql statements`: what runs, as the database's own shell takes it."""

from __future__ import annotations

import re
import sqlite3
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connections

from django_tasks_retry.taskqueue.engines import engine_for
from django_tasks_retry.taskqueue.engines.statements import BOTH, FOLDER


def printed(*names, **options):
    out = StringIO()
    call_command("tasksql", "statements", *names, stdout=out, **options)
    return out.getvalue()


def test_each_file_is_printed_for_a_database_that_runs_it():
    files = {file.name.removesuffix(".sql") for file in FOLDER.iterdir()}
    of_sqlite = {name for name in files if name.endswith("_sqlite")}
    on_postgresql, on_sqlite = (set(engine_for(alias).statements()) for alias in ("postgresql", "default"))
    assert on_postgresql == files - of_sqlite | {"enqueue", "enqueue_alike"}
    assert on_sqlite == {name.removesuffix("_sqlite") for name in of_sqlite} | BOTH


@pytest.mark.parametrize("name", sorted(engine_for("postgresql").statements()))
@pytest.mark.parametrize("on", ["postgresql"], indirect=True)
def test_postgresql_tells_the_plan_of_each(database, name):
    text = printed(name)
    parameters = text.partition("-- Parameters: ")[2].partition(".")[0].split(", ") if "-- Parameters" in text else []
    given = f"({', '.join(['NULL'] * len(parameters))})" if parameters else ""
    with connections[database].cursor() as cursor:
        cursor.execute(text)
        cursor.execute(f"EXPLAIN EXECUTE dtr_{name} {given}")
        assert cursor.fetchall()
        cursor.execute(f"DEALLOCATE dtr_{name}")


@pytest.mark.parametrize("name", sorted(engine_for("default").statements()))
@pytest.mark.parametrize("on", ["sqlite"], indirect=True)
def test_sqlite_tells_the_plan_of_each(database, name):
    text = printed(name)
    assert sqlite3.complete_statement(text)
    connections[database].ensure_connection()
    parameters = dict.fromkeys(re.findall(r":([a-z_]+)", text))
    assert list(connections[database].connection.execute(f"EXPLAIN {text}", parameters))


def test_all_are_printed_unless_some_are_named(database):
    assert printed("pending_maintenance", "poison") == printed("pending_maintenance") + printed("poison")
    assert printed() == printed(*engine_for(database).statements())


def test_another_database_may_be_named(database):
    assert "PREPARE dtr_claim AS" in printed("claim", database="postgresql")
    assert ":limit" in printed("expired", database="default")


def test_a_name_that_is_none_is_refused_with_those_there_are(database):
    with pytest.raises(CommandError, match=r"There is no statement 'clam'\. There are: .*pending_maintenance"):
        printed("clam")
    with pytest.raises(CommandError, match="`roles` takes no names"):
        call_command("tasksql", "roles", "claim")
