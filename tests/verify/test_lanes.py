"""The audit of lanes finds one too many, and nothing where there is none."""

from __future__ import annotations

from uuid import UUID

import pytest

from django_tasks_retry.verify.history import Event, Life, Row
from django_tasks_retry.verify.lanes import Allowed, LaneHistory


def life(number: int, *events: tuple[float, str]) -> Life:
    told = [Event(at, kind, 1, "w", {}) for at, kind in events]
    return Life(UUID(int=number), Row("SUCCESS", 1, 0, 5, "SUCCESS", lane="x"), told)


def found(allowed: Allowed, *lives: Life) -> list[str]:
    history = LaneHistory(lambda _: allowed)
    for each in lives:
        history.add("x", each)
    return [breach.rule for breach in history.breaches()]


ONE = life(1, (10.0, "running"), (20.0, "completed"))


@pytest.mark.parametrize(
    ("second", "rules"),
    [
        ((15.0, 25.0), ["limits"]),
        ((20.0, 25.0), []),  # in the place that was freed at that instant
        ((5.0, 10.0), []),
    ],
)
def test_two_at_once_are_one_too_many_where_one_may_run(second, rules):
    two = life(2, (second[0], "running"), (second[1], "released"))
    assert found(Allowed(1, None, 0), ONE, two) == rules
    assert found(Allowed(2, None, 0), ONE, two) == []


def test_a_lease_that_was_not_taken_back_holds_its_permit():
    frozen = life(2, (5.0, "running"))
    assert found(Allowed(1, None, 0), frozen, ONE) == ["limits"]


@pytest.mark.parametrize(("last", "rules"), [(69.9, ["rates"]), (70.0, [])])
def test_a_window_is_open_at_its_end(last, rules):
    starts = [life(n, (at, "running"), (at, "completed")) for n, at in enumerate((10.0, 30.0, last), 1)]
    assert found(Allowed(None, 2, 60.0), *starts) == rules
