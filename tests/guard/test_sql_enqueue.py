"""Enqueue by SQL: one function on PostgreSQL, and an INSERT on SQLite, with the checks of the database."""

from __future__ import annotations

import pytest
from django.db import DatabaseError, connections, transaction

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Task
from tests import tasks
from tests.steps import claim_one, now_of

on_postgresql = pytest.mark.parametrize("on", ["postgresql"], indirect=True)
on_sqlite = pytest.mark.parametrize("on", ["sqlite"], indirect=True)
FUNCTION = "SELECT django_tasks_retry_enqueue"
# As it stands in docs/howto/from-sql.rst.
INSERT = """
INSERT INTO django_tasks_retry_task (
    id, run_id, func_path, args, kwargs, metadata, lane, backend, max_attempts, timeout, interval,
    queue, priority, eta, status, attempts, refunds, created_at, updated_at
)
SELECT id, id, 'tests.tasks.noop', json_array(7), '{}', '{}', '', 'default', 5, 3600, 0,
    'default', 0, django_tasks_retry_now(), 'PENDING', 0, 0, django_tasks_retry_now(), django_tasks_retry_now()
FROM (
    SELECT printf('%%012x', CAST((julianday('now') - 2440587.5) * 86400000 AS integer))
        || '7' || substr(lower(hex(randomblob(2))), 2) || '8' || substr(lower(hex(randomblob(8))), 2) AS id
)
"""


def call(using: str, arguments: str) -> Task:
    with connections[using].cursor() as cursor:
        cursor.execute(f"{FUNCTION}({arguments})")
        return Task.objects.get(pk=cursor.fetchone()[0])


@pytest.fixture
def on(request, database):
    if request.param != database:
        pytest.skip("of the other database")
    return database


@on_postgresql
def test_a_call_by_sql_runs_like_any_other_and_has_the_usual_policy(on):
    made = Task.objects.enqueue(tasks.noop)
    task = call(on, "'tests.tasks.noop', '[7]', queue => 'emails', kwargs => '{\"a\": 1}'")
    same = ("max_attempts", "timeout", "backoff", "interval", "lane", "metadata", "backend", "priority", "status")
    assert [getattr(task, name) for name in same] == [getattr(made, name) for name in same]
    assert (task.run_id, task.pk.version, task.pk > made.pk, task.eta) == (task.pk, 7, True, task.created_at)
    lease = claim_one(queues=["emails"])
    assert (lease.id, lease.args, lease.kwargs) == (task.pk, [7], {"a": 1})


@on_postgresql
def test_a_taken_key_returns_its_holder(on):
    first = call(on, "'tests.tasks.noop', unique_key => 'k'")
    assert call(on, "'tests.tasks.noop', unique_key => 'k'").pk == first.pk
    taskqueue.complete_task(claim_one(), None)
    assert call(on, "'tests.tasks.noop', unique_key => 'k'").pk != first.pk


@on_postgresql
@pytest.mark.parametrize(
    "arguments",
    [
        "'noop'", "NULL", "'a.b', queue => ''", "'a.b', unique_key => ''", "'a.b', args => '{}'",
        "'a.b', kwargs => '[]'", "'a.b', priority => 101", "'a.b', max_attempts => 0",
        "'a.b', timeout => 'NaN'", "'a.b', args => NULL", "'a.b', eta => 'infinity'", "'a.b', queue => repeat('x', 65)",
    ],
)  # fmt: skip
def test_what_the_queue_could_not_run_is_refused(on, arguments):
    with pytest.raises(DatabaseError), transaction.atomic(using=on):
        call(on, arguments)
    assert not Task.objects.exists()


@on_postgresql
def test_nobody_lends_the_function_another_table(on):
    with connections[on].cursor() as cursor:
        cursor.execute("CREATE TEMP TABLE django_tasks_retry_task (id uuid)")
        cursor.execute("CREATE FUNCTION pg_temp.to_hex(bigint) RETURNS text LANGUAGE sql AS 'SELECT ''nothing'''")
        cursor.execute(f"{FUNCTION}('tests.tasks.noop')")
        cursor.execute("SELECT count(*) FROM pg_temp.django_tasks_retry_task")
        assert cursor.fetchone() == (0,)


@on_sqlite
def test_the_documented_insert_runs_like_any_other(on):
    with connections[on].cursor() as cursor:
        cursor.execute(INSERT, [])
    task = Task.objects.get()
    assert (task.pk.version, task.run_id, task.args) == (7, task.pk, [7])
    lease = claim_one()
    taskqueue.complete_task(lease, None)
    assert now_of(task).status == "SUCCESS"
