"""Which errors of the database go away by themselves: by SQLSTATE, and a few errors made for real."""

from __future__ import annotations

import sqlite3
import threading

import psycopg
import pytest
from django.db import DatabaseError, IntegrityError, OperationalError, connections, transaction

from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue.database import is_transient
from tests.steps import enqueue, task_in


@pytest.mark.parametrize("state", ["40001", "40P01", "55P03"])
@pytest.mark.fault("error_codes")
def test_an_error_of_this_code_may_be_gone_at_once(state):
    assert is_transient(from_driver(state))


@pytest.mark.parametrize("state", ["08006", "25006", "57P01", "53300", "57014", "XX000", "23514", "28P01", "42501"])
def test_an_error_of_another_code_is_not(state):
    assert not is_transient(from_driver(state))


def from_driver(state):
    error = OperationalError("said by the server")
    error.__cause__ = psycopg.errors.lookup(state)()
    return error


@pytest.mark.parametrize("error", [ValueError("x"), OperationalError("database is locked"), RuntimeError("deadlock")])
def test_an_error_without_a_code_is_not(error):
    assert not is_transient(error)


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
    assert is_transient(error)


@pytest.mark.fault("error_codes")
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
    assert [is_transient(error) for error in errors] == [True]


def cross(connection, key, errors):
    try:
        run(connection, f"SELECT pg_advisory_xact_lock({key})")
    except DatabaseError as error:
        errors.append(error)
        connection.close()


@pytest.mark.fault("read_only_node")
@on_postgresql
def test_a_server_that_only_reads(committed):
    error = provoked(committed, "SET TRANSACTION READ ONLY", "DELETE FROM django_tasks_retry_queue")
    assert not is_transient(error)


def test_a_refusal_of_the_guard_is_not_tried_again_at_once(database):
    task, _ = task_in("SUCCESS")
    with pytest.raises(IntegrityError) as refused, transaction.atomic(using=database):
        Task.objects.filter(pk=task.pk).update(priority=1)
    assert not is_transient(refused.value)


@pytest.mark.fault("database_file_locked")
def test_a_locked_file_of_sqlite(tmp_path, database):
    file = tmp_path / "db"
    first, second = sqlite3.connect(file, timeout=0), sqlite3.connect(file, timeout=0)
    first.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError) as locked:
        second.execute("BEGIN IMMEDIATE")
    first.close()
    second.close()
    assert not is_transient(locked.value)
