"""How a task steers its own retries: signals it raises, classes it names, a function it brings."""

from __future__ import annotations

from datetime import timedelta

import pytest

from django_tasks_retry import retry, taskqueue
from django_tasks_retry.compat import task as declare
from django_tasks_retry.errors import Abort, Retry, Snooze
from django_tasks_retry.rules.backoff import MAX_DELAY
from django_tasks_retry.rules.failure import Code, capture
from tests.steps import begin, claim_one, delay_of, enqueue, kinds, now_of


def ask_the_error(error, result):
    """A backoff that depends on what went wrong."""
    match str(error):
        case "busy":
            return 42
        case "soon":
            return 0.5
        case "hopeless":
            return None
        case "nonsense":
            return "next week"
        case "attempt":
            return 100 * result.attempts
    raise RuntimeError("no idea")


@declare
@retry(backoff=ask_the_error)
def moody():
    pass


@declare
@retry(retry_on=(ConnectionError, TimeoutError), abort_on=(ConnectionRefusedError,))
def picky():
    pass


def after(error, **options):
    """The row after its first attempt ended with this error."""
    task, lease = begin(**options)
    taskqueue.fail_task(lease, error)
    return now_of(task)


def test_retry_brings_its_own_delay_and_spends_the_attempt(database):
    task = after(Retry("rate limited", after=timedelta(minutes=10)), max_attempts=2)
    assert (task.status, delay_of(task), task.refunds) == ("PENDING", 600, 0)
    assert task.last_error["message"] == "rate limited"
    assert after(Retry(after=5), max_attempts=1, priority=1).status == "FAILED"


def test_abort_is_final_at_once(database):
    task = after(Abort("the order was withdrawn"))
    assert (task.status, task.last_error["code"]) == ("FAILED", "ABORTED")
    assert task.last_error["message"] == "the order was withdrawn"


def test_snooze_refunds_the_attempt(database):
    task = after(Snooze(90, "not yet"), max_attempts=1)
    assert (task.status, task.attempts, task.refunds, task.max_attempts - task.spent) == ("PENDING", 1, 1, 1)
    assert (delay_of(task), task.last_error) == (90, None)
    assert kinds(task) == ["task.running", "task.released"]
    assert task.events.last().data["reason"] == "not yet"


def test_a_task_may_snooze_more_often_than_its_budget(database, travel):
    task = enqueue(max_attempts=1)
    for _ in range(10):
        taskqueue.fail_task(claim_one(), Snooze(10))
        travel(11)
    task = now_of(task)
    assert (task.status, task.attempts, task.refunds) == ("PENDING", 10, 10)
    taskqueue.fail_task(claim_one(), ValueError("boom"))
    assert now_of(task).status == "FAILED"


def test_refunds_do_not_count_for_the_backoff(database, travel):
    task = enqueue(backoff=[100, 200])
    for _ in range(3):
        taskqueue.release_task(claim_one(), "shutdown")
    taskqueue.fail_task(claim_one(), ValueError("boom"))
    assert (now_of(task).attempts, delay_of(now_of(task))) == (4, 100)
    travel(101)
    taskqueue.fail_task(claim_one(), ValueError("boom"))
    assert (now_of(task).status, delay_of(now_of(task))) == ("PENDING", 200)


@pytest.mark.parametrize("delay", [0, 30])
def test_release_is_due_at_once_or_when_asked(database, delay):
    task, lease = begin()
    receipt = taskqueue.release_task(lease, "shutdown", delay)
    task = now_of(task)
    assert (delay_of(task), receipt.eta) == (delay, task.eta)
    assert task.refunds == 1


@pytest.mark.parametrize("hostile", ["\x00", "\ud800", "x" * 1_000_000])
def test_no_text_of_a_task_can_break_a_release(database, hostile):
    task = after(Snooze(1e300, hostile))
    assert (task.status, delay_of(task)) == ("PENDING", MAX_DELAY)
    task, lease = begin(priority=1)
    assert taskqueue.release_task(lease, hostile).accepted


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ConnectionError("x"), "PENDING"),
        (ConnectionResetError("x"), "PENDING"),
        (TimeoutError("x"), "PENDING"),
        (ConnectionRefusedError("x"), "FAILED"),
        (ValueError("x"), "FAILED"),
        (Retry(after=1), "PENDING"),
        (Abort("x"), "FAILED"),
        (Snooze(1), "PENDING"),
    ],
)
def test_retry_on_and_abort_on_name_classes(database, error, status):
    assert after(error, func=picky).status == status


@pytest.mark.parametrize(("text", "delay"), [("busy", 42), ("soon", 0.5), ("attempt", 100)])
def test_a_backoff_function_decides_how_long(database, text, delay):
    task = after(ValueError(text), func=moody)
    assert (task.status, delay_of(task)) == ("PENDING", delay)
    assert task.backoff == {"function": "tests.taskqueue.test_verdicts.ask_the_error"}


def test_a_backoff_function_that_returns_none_gives_up(database):
    assert after(ValueError("hopeless"), func=moody).status == "FAILED"


@pytest.mark.parametrize("text", ["nonsense", "anything else"])
def test_a_backoff_function_that_fails_leaves_the_default(database, text, caplog):
    task = after(ValueError(text), func=moody)
    assert (task.status, delay_of(task)) == ("PENDING", 1.5)
    assert "backoff function of tests.taskqueue.test_verdicts.moody failed" in caplog.text


def test_a_failure_without_its_exception_gets_the_default_backoff(database):
    """As when a process dies and its supervisor reports for it: there is nothing to show to the function."""
    task = after(capture(ValueError("busy"), Code.TIMEOUT), func=moody)
    assert (task.status, delay_of(task)) == ("PENDING", 1.5)


@pytest.mark.fault("arguments_that_do_not_fit")
def test_arguments_that_do_not_fit_are_final(database):
    task = after(capture(TypeError("x"), Code.BAD_ARGUMENTS))
    assert (task.status, task.last_error["code"]) == ("FAILED", "BAD_ARGUMENTS")
