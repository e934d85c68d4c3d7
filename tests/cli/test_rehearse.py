"""Rehearsal: recorded calls run with new code, compared with what is recorded, and nothing is kept."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Group
from django.core import mail
from django.core.management import call_command
from django.db import connections, transaction
from django.test.utils import CaptureQueriesContext

from django_tasks_retry import taskqueue
from django_tasks_retry.compat import HAS_MAILERS, task
from django_tasks_retry.models import Task
from django_tasks_retry.worker.rehearsal import ENDS_TRANSACTION
from tests.cli.conftest import tasks_command
from tests.router import CurrentDatabase
from tests.steps import claim_one

code: dict[str, Callable[..., Any]] = {}
"""The behaviour of each function. A test puts new code there."""


@task
def price(order: int) -> Any:
    return code["price"](order)


@task(takes_context=True)
def ship(context: Any, order: int) -> Any:
    return code["ship"](context, order)


PRICE, SHIP = f"{__name__}.price", f"{__name__}.ship"
NAMES = [name for name in ("default", "postgresql") if name in connections]


@pytest.fixture
def run(database, tasks) -> Callable[..., list[Task]]:
    """Run orders with the code of now, as history."""

    def run_orders(function: Any, behaviour: Callable[..., Any], *orders: int) -> list[Task]:
        code[function.func.__name__] = behaviour
        enqueued = [Task.objects.enqueue(function, [order], max_attempts=1) for order in orders]
        tasks.run_due()
        return enqueued

    return run_orders


def rehearse(using: str, path: str = PRICE, *words: str) -> Any:
    return tasks_command("rehearse", path, "--database", using, *words, "--json")


def verdicts(using: str, path: str = PRICE, *words: str) -> dict[str, int]:
    return {name: count for name, count in rehearse(using, path, *words).record["counts"].items() if count}


def rows() -> dict[tuple[str, str], int]:
    """The number of rows in each table of all databases."""
    return {
        (using, m._meta.db_table): m._base_manager.using(using).count() for using in NAMES for m in apps.get_models()
    }


def test_the_same_results_are_equal(database, run):
    run(price, lambda order: {"total": order}, 1, 2, 3)
    answer = rehearse(database)
    assert answer.code == 0
    assert answer.record["counts"]["equal"] == 3
    assert (answer.record["statements"], answer.record["calls"]) == (0, [])
    assert len(rehearse(database, PRICE, "--sample", "2").record["calls"]) == 0
    assert verdicts(database, PRICE, "--sample", "2") == {"equal": 2}


def test_results_that_differ_are_named_by_their_places(database, run):
    run(price, lambda order: {"total": order, "lines": [1, {"tax": 2}], "token": "a"}, 7)
    code["price"] = lambda order: {"total": order + 1, "lines": [1, {"tax": 3}], "note": "x", "token": "b"}
    answer = rehearse(database)
    [call] = answer.record["calls"]
    assert (answer.code, call["verdict"]) == (1, "differs")
    assert call["details"] == ["$.lines[1].tax: 2 → 3", '$.note: absent → "x"', "$.total: 7 → 8"]
    assert "$.total: 7 → 8" in tasks_command("rehearse", PRICE, "--database", database).out


def test_new_failures_and_cured_ones_are_told_apart(database, run):
    run(price, lambda order: {"total": 10 // order}, 0, 5)
    code["price"] = lambda order: {"total": {0: 0}[order]}
    answer = rehearse(database)
    assert verdicts(database) == {"cured": 1, "fails": 1}
    assert answer.code == 1
    assert {call["details"][0] for call in answer.record["calls"]} == {"ZeroDivisionError", "KeyError: 5"}
    code["price"] = lambda order: {"total": 10 // (order or 1)}
    assert rehearse(database).code == 0


def test_it_writes_nothing_to_any_database(database, run):
    def write(order: int) -> int:
        Group.objects.create(name=f"order {order}")
        price.enqueue(order + 100)
        with transaction.atomic(using=database, durable=True):
            Group.objects.create(name=f"invoice {order}")
        transaction.on_commit(lambda: Group.objects.create(name="after"), using=database)
        return order

    run(price, lambda order: order, 1, 2)
    code["price"] = write
    before = rows()
    logs = {name: CaptureQueriesContext(connections[name]) for name in NAMES}
    for log in logs.values():
        log.__enter__()
    answer = rehearse(database, PRICE, "--sample", "2")
    for log in logs.values():
        log.__exit__(None, None, None)
    assert answer.record["calls"] == []
    assert rows() == before
    statements = [query["sql"].upper() for query in logs[database].captured_queries]
    assert any("INSERT" in each for each in statements)
    assert not any("COMMIT" in each for each in statements)
    others = [query for name in NAMES if name != database for query in logs[name].captured_queries]
    assert others == []


@pytest.mark.parametrize("statement", ["COMMIT", "select 1; commit", " ROLLBACK", "begin"])
def test_a_statement_that_ends_the_transaction_is_refused(database, run, statement):
    run(price, lambda order: order, 1)

    def end(order: int) -> int:
        Group.objects.create(name="kept?")
        with connections[database].cursor() as cursor:
            cursor.execute(statement)
        return order

    code["price"] = end
    assert verdicts(database) == {"refused": 1}
    assert not Group.objects.exists()


def test_the_outside_is_refused_unless_it_is_allowed(database, run):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def call(order: int) -> int:
            try:
                socket.create_connection(server.getsockname(), timeout=5).close()
            except Exception:  # noqa: BLE001 - a task that has an answer for everything
                return -1
            return order

        run(price, call, 1)
        answer = rehearse(database)
        assert answer.record["counts"]["refused"] == 1
        assert "it calls the outside: ('127.0.0.1'" in answer.record["calls"][0]["details"][0]
        assert answer.code == 1
        assert verdicts(database, PRICE, "--allow-network") == {"equal": 1}


def test_mails_stay_in_memory(database, run, settings):
    smtp = "django.core.mail.backends.smtp.EmailBackend"
    if HAS_MAILERS:
        settings.MAILERS = {"default": {"BACKEND": smtp}}
    else:
        settings.EMAIL_BACKEND = smtp
    run(price, lambda order: order, 1)
    code["price"] = lambda order: order * mail.send_mail("s", "b", None, ["a@example.com"])
    mail.outbox = []
    assert verdicts(database) == {"equal": 1}
    assert len(mail.outbox) == 1


def test_databases_and_threads_that_are_not_named_are_refused(database, run):
    other = next((name for name in NAMES if name != database), None)
    run(price, lambda order: order, 1)
    seen: list[BaseException] = []

    def write() -> None:
        try:
            Group.objects.using(database).create(name="from a thread")
        except BaseException as error:  # noqa: BLE001
            seen.append(error)

    def thread(order: int) -> int:
        started = threading.Thread(target=write)
        started.start()
        started.join()
        return order

    code["price"] = thread
    verdicts(database)
    assert [type(error).__name__ for error in seen] == ["Refused"]
    if other:
        code["price"] = lambda order: order * Group.objects.using(other).count()
        assert verdicts(database) == {"refused": 1}
    assert not Group.objects.exists()


def test_recorded_steps_are_answered_from_history(database, run):
    called: list[int] = []

    def pack(context: Any, order: int) -> Any:
        return [context.step("pack", lambda: called.append(order) or order), context.step("label", lambda: "old")]

    run(ship, pack, 4)

    def new(context: Any, order: int) -> Any:
        packed = context.step("pack", lambda: called.append(order) or -1)
        context.progress(1, 2)
        context.step("weigh", lambda: called.append(99) or 12, atomic=True)
        return [packed, context.step("label", lambda: "new")]

    code["ship"] = new
    assert verdicts(database, SHIP) == {"equal": 1}
    assert called == [4, 99]
    assert Task.objects.get(func_path=SHIP).steps.count() == 2


def test_an_effect_that_is_not_recorded_is_refused(database, run):
    called: list[int] = []
    run(ship, lambda context, order: order, 1)
    code["ship"] = lambda context, order: context.effect("charge", lambda: called.append(order) or order)
    assert verdicts(database, SHIP) == {"refused": 1}
    code["ship"] = lambda context, order: len(context.gather("all", []))
    assert verdicts(database, SHIP) == {"refused": 1}
    assert called == []


def test_a_task_that_would_wait_is_not_compared(database, run):
    run(ship, lambda context, order: order, 1)
    code["ship"] = lambda context, order: context.sleep("night", 60)
    [call] = rehearse(database, SHIP).record["calls"]
    assert call["details"] == ["it would wait: sleeps: night"]


@pytest.fixture
def staging(database, tmp_path) -> Iterator[str]:
    """A database of its own, as restored from a backup; SQLite's is a file."""
    if connections[database].vendor != "sqlite":
        pytest.skip("made as a file")
    connections.settings["staging"] = {**connections.settings["default"], "NAME": tmp_path / "staging.sqlite3"}
    connections["staging"].connect()  # past the TestCase, which knows the aliases of the settings
    CurrentDatabase.current = "staging"
    call_command("migrate", database="staging", verbosity=0)
    yield "staging"
    connections["staging"].close()
    del connections["staging"]
    del connections.settings["staging"]


@pytest.mark.long
def test_a_staging_copy_stands_for_the_database_of_the_queue(staging, database):
    Task.objects.enqueue(price, [1])
    taskqueue.complete_task(claim_one("w-1/1"), 1)
    CurrentDatabase.current = database
    Group.objects.create(name="not in the copy")
    code["price"] = lambda order: order + Group.objects.count()
    with CaptureQueriesContext(connections[database]) as log:
        assert verdicts(staging) == {"equal": 1}
    assert log.captured_queries == []


def test_the_command_says_what_is_missing(database, run):
    assert tasks_command("rehearse", PRICE).code == 2
    assert tasks_command("rehearse", "shop.nothing", "--database", database).code == 4
    assert tasks_command("rehearse", PRICE, "--database", "nowhere").code == 2
    answer = tasks_command("rehearse", PRICE, "--database", database)
    assert (answer.code, answer.err.strip()) == (4, f"No call of {PRICE} has ended in this time.")


@pytest.mark.parametrize("ending", ["/* why */ COMMIT", "-- why\nCOMMIT", ";/* a */ -- b\n end"])
def test_a_comment_hides_no_end_of_the_transaction(ending):
    assert ENDS_TRANSACTION.search(ending)
    assert not ENDS_TRANSACTION.search("SELECT CASE WHEN a THEN b /* c */ END")


def test_a_call_that_closes_its_connection_keeps_no_others_from_being_rehearsed(committed, tasks):
    code["price"] = lambda order: order
    for order in (1, 2):
        Task.objects.enqueue(price, [order], max_attempts=1)
    tasks.run_due()

    def closes(order: int) -> int:
        connections[committed].close()
        return order

    code["price"] = closes
    assert sum(verdicts(committed).values()) == 2
    assert Task.objects.count() == 2
