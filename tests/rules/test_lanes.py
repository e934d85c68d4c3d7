"""Limits, names, windows and shares of lanes, by themselves."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_tasks_retry import Limit, lane
from django_tasks_retry.errors import InvalidCall, InvalidLane
from django_tasks_retry.rules.lanes import window
from django_tasks_retry.rules.lanes.limits import declaration_of, read_limit
from django_tasks_retry.rules.lanes.templates import checked_lane, fill_lane, matcher, wrong_with


@pytest.mark.parametrize(
    "wrong",
    [
        {"concurrency": 0}, {"concurrency": True}, {"rate": (-1, 60)}, {"rate": (5, 0)}, {"rate": (None, 60)},
        {"rate": 60}, {"weight": 0}, {"order": "fifo"}, {"order": "strict", "concurrency": 2}, {"rate": (1, "x")},
    ],
)  # fmt: skip
def test_a_limit_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(InvalidLane):
        lane("x", **wrong)


def test_a_limit_is_read_from_a_dictionary_and_a_wrong_key_is_named():
    assert read_limit({"concurrency": 2}) == Limit(concurrency=2)
    assert read_limit({"rate": (5, timedelta(minutes=2))}) == Limit(rate=(5, 120.0))
    with pytest.raises(InvalidLane, match="'runs' is no key"):
        read_limit({"runs": 2})
    with pytest.raises(InvalidLane, match="give a Limit"):
        read_limit(2)


@pytest.mark.parametrize(
    ("old", "new"),
    [("running", "concurrency="), ("starts", "rate="), ("per", "rate="), ("trips", "failure_threshold=")],
)
def test_an_old_word_is_answered_with_the_new_one(old, new):
    with pytest.raises(InvalidLane, match=new):
        lane("x", **{old: 1})
    with pytest.raises(InvalidLane, match=new):
        read_limit({old: 1})


def test_a_function_has_one_lane_and_its_decorator_stands_below_the_task():
    def function(): ...

    lane("x")(function)
    assert declaration_of(function).template == "x"
    with pytest.raises(InvalidLane, match="two lanes"):
        lane("y")(function)
    function.enqueue = None
    with pytest.raises(InvalidLane, match="above @task"):
        lane("z")(function)
    with pytest.raises(InvalidLane, match="brackets"):
        lane(function)


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("t-{x", "expected '}'"), ("t-{0}", "no name"), ("t-{a.b}", "no name"), ("t-{z}", "no argument 'z'"),
        ("t-{a}", ""),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_template_is_told(template, why):
    assert why in wrong_with(template, frozenset({"a"}))
    assert bool(wrong_with(template, frozenset({"a"}))) is bool(why)


def test_names_of_lanes_are_filled_in_checked_and_recognised():
    assert fill_lane("tenant-{a}", {"a": 7}) == "tenant-7"
    assert fill_lane("all", {}) == "all"
    with pytest.raises(InvalidCall, match="needs the argument 'a'"):
        fill_lane("tenant-{a}", {})
    for wrong in ("", "x" * 101, "queue:crm", "function:f"):
        with pytest.raises(InvalidCall):
            checked_lane(wrong)
    assert matcher("tenant-{a}").fullmatch("tenant-7")
    assert not matcher("tenant-{a}").fullmatch("tenants")
    assert matcher("a.{x}").fullmatch("a.b")
    assert not matcher("a.{x}").fullmatch("ab")


@given(
    starts=st.integers(1, 5),
    per=st.floats(0.5, 100, allow_nan=False),
    steps=st.lists(st.floats(0, 40, allow_nan=False), min_size=1, max_size=60),
)
def test_no_window_ever_holds_more_starts_than_are_allowed(starts, per, steps):
    recent, happened = [], []
    for now in itertools.accumulate(steps, initial=1_000_000.0):
        room = window.room(recent, starts, per, now)
        if room:
            recent = window.with_starts(recent, room, per, now)
            happened += [now] * room
        else:
            later = now + window.opens_in(recent, starts, per, now)
            assert window.room(recent, starts, per, later + 1e-3) > 0
    for begin in happened:
        assert sum(begin <= start < begin + per for start in happened) <= starts
    assert len(recent) <= window.BUCKETS + 2


def test_a_window_gives_back_what_has_left_it_and_a_bucket_late_at_most():
    recent = window.with_starts([], 3, 60.0, 1000.0)
    assert window.room(recent, 3, 60.0, 1059.9) == 0
    assert window.room(recent, 3, 60.0, 1060.0 + 60 / window.BUCKETS + 0.01) == 3
    assert 59 < window.opens_in(recent, 3, 60.0, 1000.0) <= 61
    assert window.opens_in(recent, 4, 60.0, 1000.0) == 0.0


def test_a_shorter_window_counts_what_was_noted_for_a_longer_one():
    recent = window.with_starts([], 3, 3600.0, 1000.0)
    assert window.room(recent, 5, 60.0, 1001.0) == 2
