"""What to do about an error of the database: one table, by SQLSTATE, and a few errors made for real."""

from __future__ import annotations

import sqlite3
import threading

import psycopg
import pytest
from django.db import DatabaseError, IntegrityError, InterfaceError, OperationalError, connections, transaction

from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue.faults import REMEDIES, Remedy, remedy_for, sqlstate
from tests.steps import enqueue, task_in

TABLE = {
    Remedy.RETRY_NOW: ["40001", "40P01", "55P03"],
    Remedy.RECONNECT: [
        "08000", "08003", "08006", "08001", "25006", "25P02", "25P03", "26000", "42P05", "57P01", "57P02", "57P03",
        "57P05",
    ],
    Remedy.BACK_OFF: ["53000", "53100", "53200", "53300", "57014", "58030", "XX000", "XX001", "99999"],
    Remedy.FATAL: ["22001", "22P05", "23505", "23514", "28P01", "28000", "3D000", "42501", "42P01", "42601"],
}  # fmt: skip


def as_django_raises_it(state):
    class Driver(psycopg.Error):
        pass

    cause = Driver("made up")
    cause.sqlstate = state
    try:
        raise DatabaseError("made up") from cause
    except DatabaseError as error:
        return error


@pytest.mark.fault("F36")
@pytest.mark.parametrize(("remedy", "state"), [(remedy, state) for remedy, states in TABLE.items() for state in states])
def test_each_code_has_its_remedy(remedy, state):
    error = as_django_raises_it(state)
    assert sqlstate(error) == state
    assert remedy_for(error) is remedy


def test_every_line_of_the_table_is_tried_here():
    tried = [state for states in TABLE.values() for state in states]
    assert all(any(state.startswith(prefix) for state in tried) for prefix in REMEDIES)


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (OperationalError("database is locked"), Remedy.BACK_OFF),
        (OperationalError("database table is locked"), Remedy.BACK_OFF),
        (OperationalError("disk I/O error"), Remedy.BACK_OFF),
        (OperationalError("connection failed: FATAL: sorry, too many clients already"), Remedy.BACK_OFF),
        (OperationalError("connection failed: FATAL: remaining connection slots are reserved"), Remedy.BACK_OFF),
        (OperationalError("database or disk is full"), Remedy.BACK_OFF),
        (IntegrityError("CHECK constraint failed: dtr_timeout_positive"), Remedy.FATAL),
        (IntegrityError("UNIQUE constraint failed: x"), Remedy.FATAL),
        (OperationalError("no such table: django_tasks_retry_task"), Remedy.FATAL),
        (OperationalError("the connection is closed"), Remedy.RECONNECT),
        (OperationalError("server closed the connection unexpectedly"), Remedy.RECONNECT),
        (OperationalError("connection failed: Connection refused"), Remedy.RECONNECT),
        (InterfaceError("connection already closed"), Remedy.RECONNECT),
        (InterfaceError("cursor already closed"), Remedy.RECONNECT),
    ],
)
def test_errors_without_a_code(error, remedy):
    assert sqlstate(error) is None
    assert remedy_for(error) is remedy


@pytest.mark.parametrize("error", [ValueError("x"), KeyError("locked"), RuntimeError("connection")])
def test_what_is_no_error_of_the_database_is_nobodys_to_repeat(error):
    assert remedy_for(error) is Remedy.FATAL


def provoked(using, *statements, kind=DatabaseError):
    with pytest.raises(kind) as raised, transaction.atomic(using=using):
        run(connections[using], *statements)
    return raised.value


def run(connection, *statements):
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


on_postgresql = pytest.mark.parametrize("on", ["postgresql"], indirect=True)


@on_postgresql
def test_a_lock_that_is_not_available(committed):
    enqueue()
    other = connections[committed].copy()
    try:
        run(other, "BEGIN", "SELECT 1 FROM django_tasks_retry_task FOR UPDATE")
        error = provoked(committed, "SELECT 1 FROM django_tasks_retry_task FOR UPDATE NOWAIT")
    finally:
        other.close()
    assert (sqlstate(error), remedy_for(error)) == ("55P03", Remedy.RETRY_NOW)


@pytest.mark.fault("F36")
@on_postgresql
def test_a_deadlock(committed):
    """Two transactions, two advisory locks, crosswise: one of them is chosen to fail."""
    one, two = connections[committed].copy(), connections[committed].copy()
    errors = []
    try:
        run(one, "BEGIN", "SET LOCAL deadlock_timeout = '20ms'", "SELECT pg_advisory_xact_lock(1)")
        run(two, "BEGIN", "SET LOCAL deadlock_timeout = '20ms'", "SELECT pg_advisory_xact_lock(2)")
        crossing = threading.Thread(target=cross, args=(two, 1, errors))
        two.inc_thread_sharing()
        crossing.start()
        cross(one, 2, errors)
        crossing.join(20)
    finally:
        one.close()
        two.close()
    assert [(sqlstate(error), remedy_for(error)) for error in errors] == [("40P01", Remedy.RETRY_NOW)]


def cross(connection, key, errors):
    try:
        run(connection, f"SELECT pg_advisory_xact_lock({key})")
    except DatabaseError as error:
        errors.append(error)
        connection.close()


@on_postgresql
def test_a_statement_that_took_too_long(committed):
    error = provoked(committed, "SET LOCAL statement_timeout = 10", "SELECT pg_sleep(10)")
    assert (sqlstate(error), remedy_for(error)) == ("57014", Remedy.BACK_OFF)


@pytest.mark.fault("F35")
@on_postgresql
def test_a_server_that_only_reads(committed):
    error = provoked(committed, "SET TRANSACTION READ ONLY", "DELETE FROM django_tasks_retry_queue")
    assert (sqlstate(error), remedy_for(error)) == ("25006", Remedy.RECONNECT)


@on_postgresql
def test_a_connection_that_was_ended_by_the_server(committed):
    other = connections[committed].copy()
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        [pid] = cursor.fetchone()
    run(connections[committed], f"SELECT pg_terminate_backend({pid}, 5000)")
    with pytest.raises(DatabaseError) as ended:
        run(other, "SELECT 1")
    with pytest.raises(DatabaseError) as closed:
        run(other, "SELECT 1")
    other.close()
    assert sqlstate(ended.value) in {"57P01", None}
    assert remedy_for(ended.value) is remedy_for(closed.value) is Remedy.RECONNECT


@on_postgresql
def test_a_server_that_is_not_there(committed):
    other = connections[committed].copy()
    other.settings_dict = {**other.settings_dict, "PORT": "1"}
    with pytest.raises(DatabaseError) as refused:
        run(other, "SELECT 1")
    assert remedy_for(refused.value) is Remedy.RECONNECT


@on_postgresql
def test_a_server_without_a_free_connection(committed):
    """The driver gives no code where no connection came about."""
    run(connections[committed], "CREATE ROLE crowd LOGIN CONNECTION LIMIT 0")
    other = connections[committed].copy()
    other.settings_dict = {**other.settings_dict, "USER": "crowd"}
    try:
        with pytest.raises(DatabaseError, match="too many connections") as refused:
            run(other, "SELECT 1")
    finally:
        run(connections[committed], "DROP ROLE crowd")
    assert remedy_for(refused.value) is Remedy.BACK_OFF


def test_a_refusal_of_the_guard_is_fatal_on_both(database):
    task, _ = task_in("SUCCESS")
    with pytest.raises(IntegrityError) as refused, transaction.atomic(using=database):
        Task.objects.filter(pk=task.pk).update(priority=1)
    assert remedy_for(refused.value) is Remedy.FATAL


@pytest.mark.fault("F52")
def test_a_locked_file_of_sqlite(tmp_path, database):
    file = tmp_path / "db"
    first, second = sqlite3.connect(file, timeout=0), sqlite3.connect(file, timeout=0)
    first.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError) as locked:
        second.execute("BEGIN IMMEDIATE")
    first.close()
    second.close()
    assert remedy_for(OperationalError(str(locked.value))) is Remedy.BACK_OFF
