"""The audit of lanes finds one too many, and nothing otherwise."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from django_tasks_retry.verify.history import Event, Row, TaskHistory
from django_tasks_retry.verify.lanes import SKEW_SECONDS, Allowed, LaneHistory


def life(number: int, *events: tuple[float, str]) -> TaskHistory:
    told = [Event(at, kind, 1, "w", {}) for at, kind in events]
    return TaskHistory(UUID(int=number), Row("SUCCESS", 1, 0, 5, "SUCCESS", lane="x"), told)


def found(allowed: Allowed, *lives: TaskHistory) -> list[str]:
    history = LaneHistory(lambda lane: allowed if lane == "x" else Allowed(None, None, 0))
    for each in lives:
        history.add(each)
    return [breach.rule for breach in history.settle()]


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


def member(number: int, *events: tuple[float, str]) -> TaskHistory:
    each = life(number, *events)
    return replace(each, row=replace(each.row, run=UUID(int=1), batch=UUID(int=99)))


def test_in_strict_order_only_members_go_before_the_task_that_waits_for_them():
    """The first task begins, suspends itself while another one runs, and ends."""
    waiting = life(1, (10.0, "running"), (11.0, "released"), (20.0, "running"), (30.0, "completed"))
    waiting = replace(waiting, row=replace(waiting.row, run=UUID(int=1)))
    between = ((12.0, "running"), (13.0, "completed"))
    strict = Allowed(1, None, 0, strict=True)
    assert found(strict, waiting, life(2, *between)) == ["order"]
    assert found(strict, waiting, member(2, *between)) == []


def test_an_attempt_that_goes_on_is_not_held_against_later_readings():
    """Its page was read at 12; the other task was claimed later, perhaps after this attempt had ended."""
    running = replace(life(1, (10.0, "running")), read_at=12.0)
    assert found(Allowed(1, None, 0), running, life(2, (12.5, "running"), (13.0, "completed"))) == []


def test_what_is_over_is_judged_and_forgotten_while_pages_are_read():
    history = LaneHistory(lambda lane: Allowed(1, 5, 60.0, strict=True) if lane == "x" else Allowed(None, None, 0))
    most, late = 0, SKEW_SECONDS * 2
    for n in range(5000):
        history.add(life(n, (n * 60.0, "running"), (n * 60.0 + 1, "completed")))
        assert list(history.settle(n * 60.0)) == []
        most = max(most, sum(len(track.ahead) + len(track.open) for track in history.tracks.values()))
    assert 0 < most <= 2 * 2 * (late / 60.0 + 1)
    history.add(life(5001, (5000 * 60.0, "running"), (5000 * 60.0 + 9, "completed")))
    history.add(life(5002, (5000 * 60.0 + 5, "running"), (5000 * 60.0 + 6, "completed")))
    assert {breach.rule for breach in history.settle()} == {"limits", "order"}
