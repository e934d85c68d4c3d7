"""A worker's calls of the database: after trouble, whatever it left behind, the next one is made anew."""

from __future__ import annotations

import gc
import logging
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import DataError, OperationalError, connections, transaction

from django_tasks_retry.clock import now
from django_tasks_retry.models import Worker
from django_tasks_retry.taskqueue import ClaimMemory, claim, register_worker
from django_tasks_retry.taskqueue.engines.ranges import ClaimRange
from django_tasks_retry.worker.shared.database import DatabaseCaller, Rejected, Unavailable

FACTS = {"host": "", "pid": 1, "version": "", "queues": [], "exclude": [], "tasks": [], "processes": 1, "slots": 1}


def test_a_transaction_that_trouble_left_open_is_gone_with_it(committed):
    database = DatabaseCaller(committed, seconds=20)

    def fail_between_two_blocks() -> None:
        for _ in range(2):
            transaction.atomic(using=committed).__enter__()
        Worker.objects.count()
        raise OperationalError("failed on the way out")

    with pytest.raises(Unavailable):
        database.call(fail_between_two_blocks)
    assert database.call(Worker.objects.count) == 0
    database.call(lambda: register_worker("after", "default", **FACTS))
    assert Worker.objects.filter(pk="after").exists()


def test_a_deadline_may_pass_at_any_moment(committed):
    """It shuts the socket and raises nothing itself: the driver fails in its ordinary places."""
    if connections[committed].vendor != "postgresql":
        pytest.skip("SQLite has no socket; its wait for the write lock is bounded")
    failed = 0
    for nth in range(150):
        try:
            caller = DatabaseCaller(committed, seconds=0.0005 + nth * 0.00003)
            caller.call(lambda: register_worker("w", "default", **FACTS))
        except Unavailable:
            failed += 1
        assert DatabaseCaller(committed, seconds=20).call(Worker.objects.count) in (0, 1)
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    gc.collect()
    assert failed > 10


def test_a_statement_that_is_not_answered_ends_with_the_deadline(committed, caplog):
    if connections[committed].vendor != "postgresql":
        pytest.skip("SQLite has no server that can be kept busy")
    database = DatabaseCaller(committed, seconds=0.2)

    def sleep_in_the_server() -> None:
        with connections[committed].cursor() as cursor:
            cursor.execute("SELECT pg_sleep(60), 'not answered'")

    with pytest.raises(Unavailable):
        database.call(sleep_in_the_server)
    assert "the server did not answer within 0.2 s" in caplog.text
    database.try_after = 0.0
    assert database.call(Worker.objects.count) == 0
    assert "database is back after 1 failed tries" in caplog.text
    with connections[committed].cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60), ''not%'"
        )


def test_pauses_between_tries_grow_until_a_call_is_answered(committed):
    database = DatabaseCaller(committed, seconds=20)
    pauses = []
    for _ in range(9):
        with pytest.raises(Unavailable):
            database.call(raise_operational_error)
        pauses.append(0.05 * 2 ** min(database.failures, 10))
    assert database.failures == 9
    assert pauses == sorted(pauses)


def raise_operational_error() -> None:
    raise OperationalError("away")


def test_a_value_that_the_database_refuses_is_no_outage(committed, caplog):
    database = DatabaseCaller(committed, seconds=20)
    for _ in range(3):
        with pytest.raises(Rejected):
            database.call(raise_data_error)
    assert caplog.text.count("refused a statement: no uuid") == 1
    assert "unavailable" not in caplog.text
    assert (database.failures, database.is_away) == (0, False)


def raise_data_error() -> None:
    raise DataError("no uuid")


@pytest.fixture
def holder(committed) -> Iterator[Any]:
    """Another connection, which has the one lock of the file."""
    if connections[committed].vendor == "postgresql":
        pytest.skip("PostgreSQL has no lock that keeps all writers out")
    other = connections[committed].copy()
    with other.cursor() as cursor:
        cursor.execute("BEGIN IMMEDIATE")
        connections[committed].close()
        yield cursor
    other.close()
    connections[committed].close()
    connections[committed].execute_wrappers.clear()


def register() -> None:
    register_worker("w", "default", **FACTS)


def test_a_lock_is_waited_for_in_turns_which_the_caller_does_not_see(committed, holder, caplog):
    caplog.set_level(logging.DEBUG)
    database, turns = DatabaseCaller(committed, seconds=60), []
    database.connect()

    def release_in_third_turn(execute: Any, sql: str, *rest: Any) -> Any:
        turns.extend([sql] if sql.startswith("BEGIN") else [])
        if len(turns) == 3 and holder.connection.in_transaction:
            holder.execute("ROLLBACK")
        return execute(sql, *rest)

    with connections[committed].execute_wrapper(release_in_third_turn):
        database.call(register)
    assert turns[:3] == ["BEGIN IMMEDIATE"] * 3
    assert Worker.objects.filter(pk="w").exists()
    assert (database.failures, database.busy, caplog.messages) == (0, 0, [])


def test_a_database_that_others_keep_locked_is_no_outage(committed, holder, caplog):
    database = DatabaseCaller(committed, seconds=0.01)
    database.connect()
    session = connections[committed].connection
    for _ in range(10):
        with pytest.raises(Unavailable):
            database.call(register)
    assert (database.failures, database.is_away) == (0, False)
    assert caplog.messages == ["others kept the database locked for 10 tries in a row; still trying"]
    holder.execute("ROLLBACK")
    database.call(register)
    assert connections[committed].connection is session
    assert (database.busy, len(caplog.messages)) == (0, 1)


def test_a_claim_that_finds_nothing_takes_no_lock(committed, holder):
    """It would wait until its deadline, and others for it."""
    memory = ClaimMemory()
    memory.cursor.move_to([ClaimRange("default", 0, now(committed), now(committed))], memory.clock(), has_lanes=False)
    assert DatabaseCaller(committed, seconds=0.01).call(lambda: claim("w", memory=memory)) == []
