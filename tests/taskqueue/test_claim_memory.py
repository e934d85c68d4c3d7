"""Each memory of a claimer alone, by a clock that the test moves, without a database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_tasks_retry.taskqueue.claim import limiter
from django_tasks_retry.taskqueue.claim.cursor import ClaimCursor, Contention, LaneRotation
from django_tasks_retry.taskqueue.claim.fair_share import FairShare, plan, quotas
from django_tasks_retry.taskqueue.claim.limiter import Closed, KnownRows
from django_tasks_retry.taskqueue.claim.tuning import TUNING, ClaimTuning
from django_tasks_retry.taskqueue.engines.ranges import ClaimRange, DuePage, LaneRange
from django_tasks_retry.taskqueue.lease import HEADER, Lease
from tests.steps import Clock

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def range_of(queue: str = "default", priority: int = 0, lane: str = "", **facts: Any) -> ClaimRange:
    return ClaimRange(queue, priority, NOW - timedelta(minutes=1), NOW, lane=lane, **facts)


def lease_of(found: ClaimRange, minutes: int = 0) -> Lease:
    moment = NOW + timedelta(minutes=minutes)
    times = dict.fromkeys(("eta", "lock_expires_at", "created_at", "started_at", "last_attempt_at"), moment)
    call: dict[str, Any] = {"args": [], "kwargs": {}, "metadata": {}, "slot": None}
    place = {"queue": found.queue, "priority": found.priority, "lane": found.lane}
    return Lease(**HEADER | call | times | place)


# The cursor


def test_a_refresh_is_due_after_a_second_and_at_once_after_a_claim_that_came_short():
    clock = Clock()
    cursor = ClaimCursor(clock)
    assert cursor.is_stale
    cursor.move_to([range_of()], clock(), has_lanes=False)
    assert not cursor.is_stale
    cursor.came_short = True
    assert cursor.is_stale
    cursor.came_short = False
    clock.advance(TUNING.remember_seconds + 0.1)
    assert cursor.is_stale


def test_lanes_are_refreshed_more_often():
    clock = Clock()
    cursor = ClaimCursor(clock)
    cursor.move_to([range_of(lane="a")], clock(), has_lanes=False)
    clock.advance(TUNING.remember_lanes_seconds + 0.1)
    assert cursor.is_stale


def test_a_refresh_that_was_slow_twice_rests_for_twenty_times_as_long():
    clock = Clock()
    cursor = ClaimCursor(clock)
    for rest in (0.0, 2.0):
        began = clock()
        clock.advance(0.1)
        cursor.move_to([range_of()], began, has_lanes=False)
        assert cursor.rest == pytest.approx(rest)
    clock.advance(1.9)
    assert not cursor.may_refresh
    assert not cursor.is_stale
    clock.advance(0.2)
    assert cursor.may_refresh
    assert cursor.is_stale


def test_a_cursor_with_nothing_to_fall_back_on_never_rests():
    clock = Clock()
    cursor = ClaimCursor(clock)
    for _ in range(2):
        clock.advance(0.1)
        cursor.move_to([], clock() - 0.1, has_lanes=False)
    assert cursor.rest == 0.0
    assert cursor.found_none_at == pytest.approx(clock() - 0.1)


def test_the_next_claim_begins_behind_the_last_lease_of_each_range():
    cursor = ClaimCursor(Clock())
    one, other = range_of(), range_of("emails")
    cursor.move_to([one, other], 0.0, has_lanes=False)
    cursor.advance([lease_of(one), lease_of(one, minutes=5)], 0.0, read_all_due=False)
    assert one.floor_eta == NOW + timedelta(minutes=5)
    assert other.floor_eta == NOW - timedelta(minutes=1)


def test_floors_are_kept_through_refreshes_while_reading_is_slow():
    clock = Clock()
    cursor = ClaimCursor(clock)
    for _ in range(2):
        cursor.move_to([range_of()], clock(), has_lanes=False)
        cursor.advance([], 0.5, read_all_due=True)
    clock.advance(9.0)
    cursor.move_to([range_of()], clock(), has_lanes=False)
    assert [each.floor_eta for each in cursor.ranges] == [NOW]
    clock.advance(1.1)
    cursor.move_to([range_of()], clock(), has_lanes=False)
    assert [each.floor_eta for each in cursor.ranges] == [NOW - timedelta(minutes=1)]


def test_a_range_in_which_nothing_is_due_is_remembered_for_a_minute():
    clock = Clock()
    cursor = ClaimCursor(clock)
    cursor.move_to([range_of("emails")], clock(), has_lanes=False)
    for seconds, remembered in ((30, ["default", "emails"]), (31, ["default"])):
        clock.advance(seconds)
        cursor.move_to([range_of()], clock(), has_lanes=False)
        assert [each.queue for each in cursor.ranges] == remembered


class Pages:
    """An engine with five ranges, each of a queue of its own, and lanes `a` to `f`."""

    using = "default"

    def due_ranges(self, after: tuple[str, int], most: int) -> DuePage:
        found = [range_of(f"q{number}") for number in range(5) if (f"q{number}", 0) > after]
        return DuePage(found[:most], has_lanes=True, limited=frozenset())

    def lane_ranges(self, cursors: Any, hops: int, fresh: float) -> list[LaneRange]:
        lanes = [lane for lane in "abcdef" if lane > cursors.get(("default", 0), "")][:hops]
        return [LaneRange(range_of(lane=lane), hop, True, False, False, None) for hop, lane in enumerate(lanes, 1)]


def test_pages_follow_one_another_and_pages_of_other_queues_are_turned():
    cursor: Any = ClaimCursor(Clock(), ClaimTuning(ranges_a_page=2))
    seen = [[each.queue for each in cursor.next_page(Pages(), lambda _: True).ranges] for _ in range(4)]
    assert seen == [["q0", "q1"], ["q2", "q3"], ["q4"], ["q0", "q1"]]
    assert [each.queue for each in cursor.next_page(Pages(), lambda queue: queue == "q4").ranges] == ["q4"]
    assert cursor.next_page(Pages(), lambda _: False).ranges == []


def test_the_rotation_sees_some_lanes_at_a_time_and_goes_round():
    rotation: Any = LaneRotation(ClaimTuning(fewest_hops=4, most_hops=4))
    rotation.widen_for(1)
    seen = [[each.range.lane for each in rotation.next_lanes(Pages())] for _ in range(3)]
    assert seen[0] == list("abcd")
    assert set(seen[1]) == set("efabcd"), "the rest, and from the beginning"
    assert set(seen[2]) == set("efabcd")


@pytest.mark.parametrize(("limit", "hops"), [(1, 64), (100, 100), (800, 256)])
def test_a_refresh_hops_over_as_many_lanes_as_the_claim_wants_within_bounds(limit, hops):
    rotation = LaneRotation()
    rotation.widen_for(limit)
    assert rotation.hops == hops


# Fair share


@given(weights=st.lists(st.floats(0.01, 100), min_size=1, max_size=20), limit=st.integers(1, 50))
def test_shares_leave_nobody_out_and_nothing_over(weights, limit):
    shares = quotas(weights, limit)
    assert min(shares) >= 1
    assert sum(shares) >= limit
    assert quotas([3.0], limit) == [limit]


def test_lanes_take_turns_by_weight_and_a_newcomer_waits_for_nobody():
    shares, ranges = FairShare(), [range_of(lane="a", weight=3.0), range_of(lane="b")]
    shares.open({"a", "b"})
    got = {"a": 0, "b": 0}
    for _ in range(400):
        first = shares.in_order(ranges)[0]
        shares.charge([lease_of(first)], ranges)
        got[first.lane] += 1
    assert abs(got["a"] - 300) <= 2
    shares.open({"a", "b", "c"})
    assert shares.served["c"] == min(shares.served["a"], shares.served["b"])


def test_a_plan_has_a_part_for_each_statement_in_the_order_of_turns():
    level = [range_of(lane="a", weight=3.0), range_of(), range_of(lane="b", is_limited=True), range_of(lane="c")]
    parts = plan(level, 12, is_limited=lambda each: each.is_limited, functions=["app.pay"])
    assert [[(each.lane, each.quota) for each in part.ranges] for part in parts[:3]] == [
        [("a", 6), ("c", 2)],
        [("", 2)],
        [("b", 2)],
    ]
    assert [(part.is_limited, part.function) for part in parts] == [
        (False, None), (False, None), (True, None), (True, "app.pay"),
    ]  # fmt: skip
    assert [each.quota for each in level] == [None] * 4, "a plan changes nothing"


def test_a_lone_lane_has_no_quota_and_neither_has_what_is_left_over():
    level = [range_of(lane="a"), range_of("emails", lane="a")]
    [part] = plan(level, 5, is_limited=lambda _: False)
    assert [each.quota for each in part.ranges] == [None, None]
    assert not part.is_used_up([lease_of(level[0])])
    [shared] = plan([range_of(lane="a"), range_of(lane="b")], 2, is_limited=lambda _: False)
    assert shared.is_used_up([lease_of(level[0])])
    [left] = plan([range_of(lane="a"), range_of(lane="b")], 2, is_limited=lambda _: False, by_weight=False)
    assert left.quota(2) == 2


def test_with_aging_a_task_that_waits_gains_priority():
    low, high = range_of(priority=-1), range_of("emails", priority=0)
    low.floor_eta, high.floor_eta = NOW - timedelta(seconds=25), NOW
    assert FairShare().in_order([low, high]) == [high, low]
    assert FairShare().in_order([low, high], aging=10.0) == [low, high]


# What is closed, and contention


def test_what_is_full_is_closed_for_a_while_or_until_a_task_of_it_ends():
    clock = Clock()
    closed = Closed(clock)
    closed.close("a", 0.25)
    closed.close("b", 5.0)
    assert closed.is_closed("a")
    assert closed.opens_at == 0.25
    clock.advance(1.0)
    assert not closed.is_closed("a")
    closed.forget_opened()
    assert closed.opens_at == 5.0
    assert closed.reopen("b", "queue:default")
    assert not closed.reopen("b")
    assert not closed.is_closed("b")


def test_rows_that_were_seen_are_not_created_again(monkeypatch):
    created: list[set[str]] = []
    monkeypatch.setattr(limiter, "create_limits", lambda labels, _: created.append(set(labels)))
    rows = KnownRows()
    rows.learn(frozenset({"queue:emails"}), [range_of(lane="a", is_limited=True), range_of(lane="b")], "default")
    for _ in range(2):
        rows.create_missing({"a", "b", "queue:emails"}, "default")
    assert created == [{"b"}]


def test_a_claimer_that_is_turned_away_for_seconds_claims_without_a_place_for_a_while():
    clock = Clock()
    contention = Contention(clock)
    assert contention.note_refusal() > 0
    clock.advance(TUNING.contention_patience + 0.1)
    assert contention.places == TUNING.claimers_at_head
    assert contention.note_refusal() == 0.0
    assert contention.places == 0
    clock.advance(TUNING.insist_seconds + 0.1)
    assert contention.places == TUNING.claimers_at_head
