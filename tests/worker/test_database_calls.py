"""A worker's calls of the database: after trouble, whatever it left behind, the next one is made anew."""

from __future__ import annotations

import gc
import signal

import pytest
from django.db import DataError, OperationalError, connections, transaction

from django_tasks_retry.models import Worker
from django_tasks_retry.taskqueue import register_worker
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
