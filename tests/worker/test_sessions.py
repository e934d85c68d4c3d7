"""A session between two attempts: made as new in one round trip, and only if it was used."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connections

from django_tasks_retry.worker.child.connections import Session

USING = "postgresql"
pytestmark = pytest.mark.django_db(databases=["default", USING], transaction=True)
SETTINGS = "SELECT name, setting FROM pg_settings WHERE name <> 'application_name' UNION SELECT 'user', current_user"


@pytest.fixture
def in_thread() -> Iterator[Callable[..., Any]]:
    """Run in a thread that has a session of its own, as an executor's has."""

    def run(act: Callable[[Session], Any]) -> Any:
        session = Session(USING)
        try:
            return act(session)
        finally:
            session.discard()

    with ThreadPoolExecutor(1) as thread:
        yield lambda act: thread.submit(run, act).result()


def ask(sql: str) -> list[Any]:
    with connections[USING].cursor() as cursor:
        cursor.execute(sql)
        return sorted(cursor.fetchall())


@contextmanager
def messages() -> Iterator[list[str]]:
    """The messages that the driver sends over this thread's session, as libpq traces them."""
    sent: list[str] = []
    with tempfile.TemporaryFile("w+") as file:
        raw = connections[USING].connection
        raw.pgconn.trace(file.fileno())
        yield sent
        raw.pgconn.untrace()
        file.seek(0)
        sent += [" ".join(fields[3:]) for line in file if (fields := line.split("\t"))[1] == "F"]


def attempts(session: Session, sql: str, count: int) -> list[str]:
    ask(sql)
    with messages() as sent:
        for _ in range(count):
            session.reset()
            ask(sql)
    return sent


def test_an_attempt_costs_one_message_beside_its_own(in_thread):
    """It sends neither the time zone anew nor asks whether the session is alive."""

    def act(session):
        return attempts(session, "SELECT 1", 3)

    sent = in_thread(act)
    assert [message.split()[0] for message in sent] == ["Query"] * 6
    assert ["CLOSE ALL" in message for message in sent] == [True, False] * 3
    assert not any("PLANS" in message or "DISCARD ALL" in message for message in sent)


def test_an_attempt_that_did_not_use_the_session_sends_nothing(in_thread):
    def act(session):
        ask("SELECT 1")
        session.reset()
        raw = session.idle
        for _ in range(3):
            session.reset()
        return session.idle is raw, raw.closed

    assert in_thread(act) == (True, False)


@pytest.mark.parametrize("role", [None, "pg_monitor"])
def test_a_session_is_reset_to_what_django_makes_of_a_new_one(in_thread, monkeypatch, role):
    if role:
        monkeypatch.setitem(connections[USING].settings_dict["OPTIONS"], "assume_role", role)

    def act(session):
        as_made = ask(SETTINGS)
        before = session.wrapper.connection
        for setting in ("SET TIME ZONE 'Asia/Tokyo'", "SET work_mem TO '1MB'", "SET ROLE pg_read_all_data"):
            connections[USING].connection.execute(setting)
        session.reset()
        return as_made, ask(SETTINGS), connections[USING].connection is before

    as_made, after, is_same = in_thread(act)
    assert (after, is_same) == (as_made, True)


@pytest.mark.parametrize("threshold", [None, 0])
def test_statements_that_the_driver_prepared_can_be_sent_again(in_thread, monkeypatch, threshold):
    monkeypatch.setitem(connections[USING].settings_dict["OPTIONS"], "prepare_threshold", threshold)
    monkeypatch.setitem(connections[USING].settings_dict["OPTIONS"], "server_side_binding", True)
    assert in_thread(lambda session: attempts(session, "SELECT 1", 3))


def test_a_session_that_cannot_be_reset_is_replaced(in_thread):
    def act(session):
        ask("SELECT 1")
        before = session.wrapper.connection
        session.statement = b"SELECT 1; SELECT 1 / 0"
        session.reset()
        return ask("SELECT 1"), connections[USING].connection is before, before.closed

    assert in_thread(act) == ([(1,)], False, True)


def test_receivers_of_new_connections_are_called_for_each_attempt(in_thread):
    from django.db.backends.signals import connection_created

    called = []

    def limit(connection: Any, **_: Any) -> None:
        if connection.alias == USING:
            called.append(connection)
            with connection.cursor() as cursor:
                cursor.execute("SET statement_timeout TO '7s'")

    def act(session):
        found = [ask("SHOW statement_timeout")]
        session.reset()
        return [*found, ask("SHOW statement_timeout")]

    connection_created.connect(limit)
    try:
        assert in_thread(act) == [[("7s",)]] * 2
    finally:
        connection_created.disconnect(limit)
    assert len(set(map(id, called))) == 2
