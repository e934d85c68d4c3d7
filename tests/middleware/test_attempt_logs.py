"""Log lines of a failed attempt are kept with the event of its failure, within bounds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from time import monotonic

import pytest

from django_tasks_retry.compat import framework_logger
from django_tasks_retry.conf import options
from django_tasks_retry.errors import InvalidOptions, TaskTimeout
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import claim, current_lease, record
from django_tasks_retry.worker.child import attempt_logs
from django_tasks_retry.worker.child.attempt import Attempt
from django_tasks_retry.worker.child.attempt_logs import MOST_BYTES, MOST_TAILS, AttemptLogHandler, tails, take
from django_tasks_retry.worker.child.pipeline import run_attempt, run_attempt_async
from tests.middleware import samples

logger = logging.getLogger("shop")


@pytest.fixture
def handler() -> Iterator[AttemptLogHandler]:
    """As a child attaches it."""
    handler = AttemptLogHandler(5)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)
    tails.clear()


@pytest.fixture
def lease(database):
    Task.objects.enqueue(samples.log_and_fail, [0])
    [lease] = claim("w")
    token = current_lease.set(lease)
    yield lease
    current_lease.reset(token)


def run(function, *args) -> Task:
    task = Task.objects.enqueue(function, args, max_attempts=1)
    [lease] = claim("w")
    attempt = Attempt(lease, monotonic())
    if function is samples.log_and_fail_async:
        asyncio.run(run_attempt_async(attempt))
    else:
        run_attempt(attempt)
    record([attempt.report])
    task.refresh_from_db()
    return task


@pytest.mark.parametrize("function", [samples.log_and_fail, samples.log_and_fail_async], ids=["thread", "coroutine"])
def test_the_last_lines_of_a_failed_attempt_are_on_its_event(database, handler, function):
    task = run(function, 8)
    log = task.events.get(kind="task.failed").data["log"]
    assert [line.partition(" ")[2] for line in log.split("\n")] == [f"INFO shop: line {n}" for n in range(3, 8)]
    assert tails == {}


def test_a_success_leaves_no_line(database, handler):
    task = run(samples.log_and_return)
    assert task.status == "SUCCESS"
    assert all("log" not in event.data for event in task.events.all())
    assert tails == {}


def test_attempts_do_not_see_the_lines_of_others(database, handler):
    run(samples.log_and_fail, 2)
    task = run(samples.log_and_fail, 1)
    assert task.events.get(kind="task.failed").data["log"].count("\n") == 0


@pytest.mark.fault("endless_or_unstorable_attempt_logs")
def test_lines_are_bounded_in_number_and_bytes(lease, handler):
    for n in range(4):
        logger.info("%s %s", n, "ä" * 10**6)
    for _ in range(20):
        logger.info("€" * 5000)
    kept = take(lease)
    assert len(kept.encode()) <= MOST_BYTES
    assert kept.count("\n") < 5


@pytest.mark.fault("endless_or_unstorable_attempt_logs")
def test_what_cannot_be_stored_or_said_is_replaced(lease, handler):
    class Mute:
        def __str__(self) -> str:
            raise ValueError

    error = KeyError("lost")
    for message, args, exc_info in (
        ("nul \0 and \udcff", (), None),
        ("%d", ("no number",), None),
        ("%s", (Mute(),), None),
        ("it failed", (), (KeyError, error, None)),
    ):
        # Not by the logger: handlers of pytest fail a test that logs nonsense.
        handler.handle(logger.makeRecord("shop", logging.INFO, "", 0, message, args, exc_info))
    assert [line.partition(": ")[2] for line in take(lease).split("\n")] == [
        "nul \\u0000 and \\udcff",
        "(a message that cannot be formatted: TypeError)",
        "(a message that cannot be formatted: ValueError)",
        "it failed · KeyError: 'lost'",
    ]


@pytest.mark.fault("endless_or_unstorable_attempt_logs")
def test_an_interruption_while_a_line_is_said_reaches_the_function(lease, handler):
    class Interrupted:
        def __str__(self) -> str:
            raise TaskTimeout

    with pytest.raises(TaskTimeout):
        handler.handle(logger.makeRecord("shop", logging.INFO, "", 0, "%s", (Interrupted(),), None))


@pytest.mark.fault("endless_or_unstorable_attempt_logs")
def test_coroutines_that_outlive_their_attempts_fill_no_memory(lease, handler):
    for n in range(MOST_TAILS + 10):
        current_lease.set(lease._replace(attempts=n))
        logger.info("still here")
    assert len(tails) == MOST_TAILS


def test_outside_of_an_attempt_and_by_the_framework_nothing_is_kept(database, handler, caplog):
    logger.info("outside")
    framework_logger.addHandler(handler)
    try:
        with caplog.at_level(logging.INFO, framework_logger.name):
            task = run(samples.log_and_fail, 1)
    finally:
        framework_logger.removeHandler(handler)
    assert task.events.get(kind="task.failed").data["log"].count("\n") == 0


def test_nothing_is_attached_where_it_is_switched_off():
    root = logging.getLogger()
    before = list(root.handlers)
    attempt_logs.keep_lines(0)
    assert root.handlers == before


@pytest.mark.parametrize("value", [-1, 1.5, "10", True, 10**6])
def test_a_number_of_lines_that_makes_no_sense_is_refused(configure, value):
    configure(ATTEMPT_LOG_LINES=value)
    with pytest.raises(InvalidOptions, match="ATTEMPT_LOG_LINES"):
        options("default")
