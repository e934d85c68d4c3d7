"""The checker of lanes sees what it is there for."""

from __future__ import annotations

from uuid import UUID

import pytest

from django_tasks_retry.verify.history import Event
from tests.soak.permits import CROWD, ENOUGH, MOST_OVERTAKEN, STARTS, Member, complaints


def member(place: str, *events: tuple[float, str], enqueued: float = 0.0) -> Member:
    return Member(place, enqueued, [Event(at, kind, 1, "w", {}) for at, kind in events])


def ran(place: str, began: float, ended: float) -> Member:
    return member(place, (began, "running"), (ended, "completed"))


def told(*members: Member) -> list[str]:
    return complaints({UUID(int=n): each for n, each in enumerate(members)})


def test_lanes_that_kept_their_limits_are_no_complaint():
    assert told(ran("limited-1", 1, 3), ran("limited-1", 2, 4), ran("limited-2", 2, 4), ran("limited-1", 3, 5)) == []
    assert told(*(ran("rated-1", n / STARTS, n / STARTS) for n in range(5 * STARTS))) == []
    assert told(ran("ordered-1", 1, 2), ran("ordered-1", 2, 3), ran("ordered-2", 1, 3)) == []


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ([ran("limited-1", n, 5) for n in range(3)], "one of 3 that ran in lane limited-1"),
        ([ran("narrow", n, 5) for n in range(4)], "one of 4 that ran in lane narrow"),
        ([ran("rated-1", n / 100, 5) for n in range(STARTS + 1)], f"one of {STARTS + 1} within 0.1"),
        ([ran("metered", n / 100, 5) for n in range(STARTS + 1)], f"one of {STARTS + 1} within 0.1"),
        ([member("limited-1", (1, "running")), ran("limited-1", 2, 3), ran("limited-1", 2, 3)], "one of 3"),
    ],
    ids=["limit", "queue", "rate", "function", "never taken back"],
)
def test_one_too_many_is_found(members, said):
    [complaint] = told(*members)
    assert said in complaint


def test_in_strict_order_nothing_begins_while_another_waits_for_its_retry():
    waits = member("ordered-1", (1, "running"), (2, "failed"), (2, "requeued"), (5, "running"), (6, "completed"))
    [complaint] = told(waits, ran("ordered-1", 3, 4))
    assert "began in ordered-1 before" in complaint


@pytest.mark.parametrize(("before", "found"), [(MOST_OVERTAKEN, 0), (MOST_OVERTAKEN + 1, 1)])
def test_a_lone_task_that_waited_for_the_crowd_is_found(before, found):
    crowd = [ran(CROWD, 10 + n / 1000, 20) for n in range(before)]
    lone = member("fair-1", (15, "running"), (16, "completed"), enqueued=9.0)
    assert len(told(lone, *crowd)) == found


def test_a_limit_that_was_never_reached_is_told():
    assert "ever full: 1 of 2" in told(*(ran("limited-1", n, n + 1) for n in range(ENOUGH)))[0]
