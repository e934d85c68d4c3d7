"""Backoff: time and chance are arguments, so every delay is exact."""

from __future__ import annotations

import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_tasks_retry.errors import InvalidPolicy
from django_tasks_retry.rules.backoff import (
    MAX_DELAY,
    Custom,
    Exponential,
    FixedDelays,
    as_backoff,
    default_max_attempts,
    from_json,
    has_unreachable_delays,
    to_json,
)

MINUTE = 60.0


def patiently(error, result):
    return 5


@pytest.mark.parametrize(("chance", "minutes"), [(-1, 7), (0, 10), (1, 13)])
def test_jitter_spreads_ten_minutes_to_seven_ten_and_thirteen(chance, minutes):
    backoff = Exponential(base=10 * MINUTE, cap=10 * MINUTE, jitter=0.3)
    assert backoff.delay(1, chance) == minutes * MINUTE


def test_the_default_doubles_up_to_its_cap():
    assert [Exponential().delay(n, 0) for n in range(1, 9)] == [1.5, 3, 6, 12, 24, 48, 60, 60]


def test_jitter_comes_after_the_cap():
    assert Exponential().delay(50, 1) == 78


def test_a_factor_of_one_is_a_constant_delay():
    assert [Exponential(5, 1, 60, 0).delay(n, 1) for n in (1, 2, 100)] == [5, 5, 5]


@given(st.integers(1, 10_000), st.floats(-1, 1))
def test_no_budget_is_too_large_for_a_delay(spent, chance):
    assert 0 <= Exponential(1, 1000, MAX_DELAY, 1).delay(spent, chance) <= 2 * MAX_DELAY


@pytest.mark.parametrize(
    ("given_", "named"),
    [
        ({"base": -1}, "base=-1"),
        ({"base": "1"}, "base='1'"),
        ({"base": float("nan")}, "base=nan"),
        ({"base": 100}, "cap=60.0.*at least base"),
        ({"cap": float("inf")}, "cap=inf"),
        ({"factor": 0.5}, "factor=0.5"),
        ({"factor": 1e9}, "factor="),
        ({"jitter": -0.1}, "jitter=-0.1"),
        ({"jitter": 2}, "jitter=2"),
        ({"jitter": None}, "jitter=None"),
    ],
)
def test_an_impossible_exponential_is_refused(given_, named):
    with pytest.raises(InvalidPolicy, match=named):
        Exponential(**given_)


def test_a_schedule_is_followed_and_its_last_delay_repeats():
    assert [FixedDelays((300, 900, 3600)).delay(n, 1) for n in range(1, 7)] == [300, 900, 3600, 3600, 3600, 3600]


@pytest.mark.parametrize(("delays", "otherwise", "budget"), [([1], 5, 2), ([300, 900, 3600], 2, 4)])
def test_a_schedule_makes_its_own_budget(delays, otherwise, budget):
    assert default_max_attempts(as_backoff(delays), otherwise) == budget


def test_other_backoffs_leave_the_budget_alone():
    assert default_max_attempts(Exponential(), 7) == default_max_attempts(None, 7) == 7


@pytest.mark.parametrize(("budget", "unreachable"), [(1, True), (3, True), (4, False), (5, False)])
def test_delays_past_the_budget_are_never_reached(budget, unreachable):
    assert has_unreachable_delays(FixedDelays((1, 2, 3)), budget) is unreachable


backoffs = (
    st.none()
    | st.lists(st.floats(0, MAX_DELAY), min_size=1, max_size=5).map(as_backoff)
    | st.builds(Exponential, st.floats(0, 60), st.floats(1, 1000), st.floats(60, 1e6), st.floats(0, 1))
    | st.just(Custom("tests.rules.test_backoff.patiently"))
)


@given(backoffs)
def test_what_is_stored_can_be_read_back(backoff):
    assert from_json(to_json(backoff)) == backoff


def test_a_function_is_known_by_its_path():
    assert as_backoff(patiently) == Custom("tests.rules.test_backoff.patiently")


@pytest.mark.parametrize("value", [5, "5", None, {"base": 1}, lambda e, r: 1, functools.partial(patiently)])
def test_what_is_no_backoff_is_refused(value):
    with pytest.raises(InvalidPolicy, match="backoff="):
        as_backoff(value)
