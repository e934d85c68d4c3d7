"""The verdict on a failed attempt, and the policies it is read from."""

from __future__ import annotations

from datetime import timedelta

import pytest

from django_tasks_retry.errors import Abort, InvalidPolicy, Retry, Snooze, TaskTimeout
from django_tasks_retry.rules.backoff import MAX_DELAY, Custom, Exponential, FixedDelays
from django_tasks_retry.rules.failure import Code, capture
from django_tasks_retry.rules.policy import RetryPolicy, delay_before_next, make_policy, policy_of, retry


def verdict(error, *, code=None, policy=None, backoff=None, spent=1, max_attempts=5, custom=lambda: None, chance=0.0):
    return delay_before_next(
        error,
        code or (capture(error).code if error else Code.EXCEPTION),
        policy=policy or RetryPolicy(),
        backoff=backoff or Exponential(10, 2, 1000, 0.3),
        custom=custom,
        spent=spent,
        max_attempts=max_attempts,
        chance=chance,
    )


@pytest.mark.parametrize(("spent", "delay"), [(1, 10), (2, 20), (3, 40), (4, 80), (5, None), (6, None)])
def test_an_attempt_is_followed_by_another_while_budget_is_left(spent, delay):
    assert verdict(ValueError(), spent=spent) == delay


@pytest.mark.parametrize(("chance", "delay"), [(-1, 7), (0, 10), (1, 13)])
def test_chance_spreads_the_delay(chance, delay):
    assert verdict(ValueError(), chance=chance) == delay


def test_retry_brings_its_own_delay_and_spends_the_attempt():
    assert verdict(Retry(after=77)) == 77
    assert verdict(Retry(after=timedelta(minutes=2))) == 120
    assert verdict(Retry(after=77), spent=5) is None
    assert verdict(Retry(after=1e12)) == MAX_DELAY


def test_abort_is_final_whatever_is_left():
    assert verdict(Abort("enough")) is None


@pytest.mark.parametrize("code", [Code.ABORTED, Code.BAD_ARGUMENTS, Code.RESULT_NOT_SERIALIZABLE, Code.UNREADABLE])
def test_what_no_attempt_can_mend_is_final(code):
    assert verdict(None, code=code) is None


@pytest.mark.parametrize("code", [Code.EXCEPTION, Code.TIMEOUT, Code.LEASE_LOST])
def test_a_failure_captured_elsewhere_is_tried_again(code):
    assert verdict(None, code=code) == 10


class Gone(ConnectionError):
    pass


@pytest.mark.parametrize(
    ("error", "delay"),
    [
        (ConnectionError(), 10),
        (Gone(), None),
        (ValueError(), None),
        (TaskTimeout(), None),
        (Retry(after=3), 3),
        (KeyboardInterrupt(), None),
    ],
)
def test_retry_on_and_abort_on_name_what_is_worth_another_attempt(error, delay):
    policy = RetryPolicy(retry_on=(ConnectionError,), abort_on=(Gone,))
    assert verdict(error, policy=policy) == delay


def test_abort_on_alone_leaves_everything_else_to_be_retried():
    policy = RetryPolicy(abort_on=(KeyError,))
    assert (verdict(KeyError(), policy=policy), verdict(ValueError(), policy=policy)) == (None, 10)


@pytest.mark.parametrize(
    ("answer", "delay"), [(3, 3), (0, 0), (-5, 0), (1e300, MAX_DELAY), (float("nan"), 0), (None, None)]
)
def test_a_function_of_the_users_decides(answer, delay):
    assert verdict(ValueError(), backoff=Custom("x"), custom=lambda: answer) == delay


def test_a_function_is_not_asked_where_no_attempt_is_left():
    assert verdict(ValueError(), backoff=Custom("x"), custom=lambda: 1, spent=5) is None


@pytest.mark.parametrize(
    ("given_", "named"),
    [
        ({"max_attempts": 0}, "max_attempts=0"),
        ({"max_attempts": True}, "max_attempts=True"),
        ({"timeout": 0}, "timeout=0"),
        ({"timeout": -1}, "timeout=-1"),
        ({"timeout": timedelta(days=5000)}, "at most ten years"),
        ({"retry_on": ValueError}, "retry_on="),
        ({"retry_on": ("ValueError",)}, "retry_on="),
        ({"abort_on": [ValueError()]}, "abort_on="),
        ({"abort_on": (int,)}, "abort_on="),
        ({"retry_on": (ValueError, KeyError), "abort_on": (KeyError,)}, "KeyError"),
        ({"backoff": []}, r"backoff=\[\]"),
    ],
)
def test_a_policy_that_contradicts_itself_is_refused(given_, named):
    with pytest.raises(InvalidPolicy, match=named):
        make_policy(**given_)


def test_a_decorated_function_stays_as_it_is_and_carries_its_policy():
    def function():
        return 7

    decorated = retry(backoff=[1, 2], timeout=timedelta(minutes=1), atomic=True)(function)
    assert decorated is function
    assert decorated() == 7
    policy = policy_of(decorated)
    assert policy == RetryPolicy(backoff=FixedDelays((1, 2)), timeout=60, atomic=True)
    assert policy.budget(9) == 3


@pytest.mark.parametrize("delay", [-1, float("inf"), float("nan"), timedelta(seconds=-1)])
def test_signals_refuse_delays_that_are_none(delay):
    with pytest.raises(ValueError, match="finite number of seconds"):
        Retry(after=delay)
    with pytest.raises(ValueError, match="finite number of seconds"):
        Snooze(delay)


@pytest.mark.parametrize("delay", ["5", None, True])
def test_signals_refuse_what_is_no_number(delay):
    with pytest.raises(TypeError, match="number of seconds"):
        Snooze(delay)
