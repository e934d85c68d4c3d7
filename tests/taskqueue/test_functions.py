"""Statements that PostgreSQL keeps planned: installed by `migrate`, missed by nobody."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from django.core.exceptions import SynchronousOnlyOperation
from django.core.management import call_command
from django.db import connections, transaction
from django.db.transaction import TransactionManagementError

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue.engines import engine_for
from django_tasks_retry.taskqueue.engines.postgresql import CLAIM
from django_tasks_retry.taskqueue.engines.postgresql_rows import ENQUEUE_ONE
from django_tasks_retry.taskqueue.engines.statements import STATEMENTS, install_after_migrate
from tests import tasks

pytestmark = [pytest.mark.parametrize("on", ["postgresql"], indirect=True)]
PLAIN = CLAIM[False, False]


def execute(using, sql):
    with connections[using].cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall() if cursor.description else []


def functions(using, kind):
    found = execute(using, f"SELECT proname FROM pg_proc WHERE proname ~ '^{kind}_[0-9a-f]{{12}}$'")
    return {name for [name] in found}


@pytest.fixture(autouse=True)
def asks_anew():
    yield
    engine_for("postgresql").functions.are_there = None


def drop(using):
    for [function] in execute(
        using, "SELECT oid::regprocedure FROM pg_proc WHERE proname ~ '^dtr_[a-z_]+_[0-9a-f]{12}$'"
    ):
        execute(using, f"DROP FUNCTION {function}")


def claimed_by(using):
    """The names of the statements that one claim sent."""
    sent = []

    def note(execute, sql, params, many, context):
        sent.append(sql)
        return execute(sql, params, many, context)

    Task.objects.enqueue(tasks.noop)
    with connections[using].execute_wrapper(note):
        [lease] = taskqueue.claim("worker/1")
    taskqueue.finish([taskqueue.Completed(lease)])
    return [sql for sql in sent if "-- Claim" in sql]


def sent_by_enqueue(using):
    """The statements that one enqueue sent."""
    sent = []

    def note(execute, sql, params, many, context):
        sent.append(sql)
        return execute(sql, params, many, context)

    with connections[using].execute_wrapper(note):
        Task.objects.enqueue(tasks.add, [1, 2])
    return sent


def test_one_task_is_enqueued_by_one_call_whose_plan_is_kept(database):
    Task.objects.enqueue(tasks.noop)  # which asks for the functions
    assert sent_by_enqueue(database) == [ENQUEUE_ONE.call]


def test_without_its_function_one_task_is_enqueued_by_the_text(database):
    drop(database)
    engine_for(database).functions.are_there = False
    assert sent_by_enqueue(database) == [ENQUEUE_ONE.text]


def test_statements_share_one_cursor_of_their_connection(committed):
    """Making one, and telling it how to read times, took the client longer than the statement."""
    Task.objects.enqueue(tasks.noop)
    made = []

    class Counted(connections[committed].connection.cursor_factory):
        def __init__(self, connection, **options):
            made.append(self)
            super().__init__(connection, **options)

    connections[committed].connection.cursor_factory = Counted
    for _ in range(3):
        Task.objects.enqueue(tasks.noop)
        taskqueue.finish([taskqueue.Completed(lease) for lease in taskqueue.claim("worker/1", limit=9)])
    assert made == []


def test_a_new_connection_has_a_cursor_of_its_own(committed):
    Task.objects.enqueue(tasks.noop)
    connections[committed].close()
    assert Task.objects.enqueue(tasks.noop).created_at.utcoffset() == timedelta(0)


def test_a_broken_transaction_refuses_an_enqueue_as_any_statement(committed):
    def enqueue_in_it():
        with transaction.atomic(using=committed):
            transaction.set_rollback(True, using=committed)
            Task.objects.enqueue(tasks.noop)

    with pytest.raises(TransactionManagementError):
        enqueue_in_it()


async def enqueue_in_a_loop():
    Task.objects.enqueue(tasks.noop)


def test_the_event_loop_is_refused_as_by_any_statement(committed):
    Task.objects.enqueue(tasks.noop)
    with pytest.raises(SynchronousOnlyOperation):
        asyncio.run(enqueue_in_a_loop())


def test_migrate_installs_a_function_for_each_statement(database):
    drop(database)
    call_command("migrate", database=database, verbosity=0)
    assert {name for statement in STATEMENTS.values() for name in functions(database, statement.kind)} == set(
        STATEMENTS
    )
    assert claimed_by(database) == [PLAIN.call]


def test_without_its_functions_a_worker_sends_the_texts(database):
    """New code may run before `migrate` does."""
    drop(database)
    engine_for(database).functions.are_there = None
    assert claimed_by(database) == [PLAIN.text]


def test_a_role_that_may_call_no_functions_sends_the_texts(database):
    """PostgreSQL lets everybody call them, but an owner may have revoked that."""
    execute(database, "CREATE ROLE dtr_reluctant")
    execute(database, "GRANT ALL ON ALL TABLES IN SCHEMA public TO dtr_reluctant")
    execute(database, "GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO dtr_reluctant")
    execute(database, f"REVOKE EXECUTE ON FUNCTION {PLAIN.name} FROM PUBLIC")
    engine_for(database).functions.are_there = None
    execute(database, "SET LOCAL ROLE dtr_reluctant")
    assert claimed_by(database) == [PLAIN.text]
    execute(database, "RESET ROLE")


def test_a_function_that_is_dropped_meanwhile_is_done_without(committed):
    assert claimed_by(committed) == [PLAIN.call]
    try:
        drop(committed)
        assert claimed_by(committed) == [PLAIN.text]
    finally:
        install_after_migrate(committed)


def test_workers_of_the_last_version_find_theirs_and_older_ones_go(database):
    for number, day in enumerate(("2026-01-01", "2026-01-03", "2026-01-02")):
        name = f"dtr_claim_{number:012d}"
        execute(database, f"CREATE FUNCTION {name}() RETURNS int LANGUAGE sql AS 'SELECT 1'")
        execute(database, f"COMMENT ON FUNCTION {name} IS '{day}'")
    install_after_migrate(database)
    assert functions(database, "dtr_claim") == {PLAIN.name, "dtr_claim_000000000001"}


@pytest.mark.parametrize(
    "missing", ["DROP TABLE django_tasks_retry_step", "ALTER TABLE django_tasks_retry_task DROP batch"]
)
def test_nothing_is_installed_beside_tables_of_another_version(database, missing):
    """Another app is migrated before ours; or ours goes back to a version that knew less."""
    drop(database)
    execute(database, f"{missing} CASCADE")
    install_after_migrate(database)
    assert functions(database, PLAIN.kind) == set()


def test_installing_twice_changes_nothing(database):
    before = execute(database, "SELECT oid, xmin FROM pg_proc WHERE proname LIKE 'dtr\\_%' ORDER BY 1")
    install_after_migrate(database)
    assert execute(database, "SELECT oid, xmin FROM pg_proc WHERE proname LIKE 'dtr\\_%' ORDER BY 1") == before
