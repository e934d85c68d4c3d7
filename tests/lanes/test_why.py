"""Why a task of a lane does not run, in one sentence."""

from __future__ import annotations

from django_tasks_retry import taskqueue
from django_tasks_retry.rules.failure import capture
from tests import tasks


def test_of_a_full_lane_it_tells_who_runs_and_who_waits(why, enqueue, claim):
    first, second, third, last = enqueue(tasks.sync, 4, 42)
    claim()
    assert why(last) == f"Lane tenant-42 runs 2 of 2: {first.pk}, {second.pk}. 1 waits before it."
    assert third.lane == "tenant-42"


def test_of_a_rate_it_tells_when_the_next_may_start(why, enqueue, claim):
    *_, last = enqueue(tasks.call_api, 6, "a")
    claim()
    reached = "Lane api-a has reached its rate limit (5 starts in 1 min). The next task can start in "
    assert why(last).startswith(reached)


def test_of_a_pause_it_tells_who_paused_it_and_why(why, enqueue):
    [lane, function] = [*enqueue(tasks.noop, 1, lane="a"), *enqueue(tasks.add, 1, 1, 2)]
    taskqueue.pause("a", kind="lane", by="ann", reason="API down")
    taskqueue.pause("tests.tasks.add", kind="function", by="ann", reason="broken")
    assert why(lane).startswith("Lane a was paused by ann at ")
    assert "(API down). The task waits." in why(lane)
    assert why(function).startswith("Function tests.tasks.add was paused by ann at ")


def test_of_strict_order_it_tells_what_it_waits_for(why, enqueue, claim):
    first, second = enqueue(tasks.post, 2, 1, 1)
    [lease] = claim()
    taskqueue.fail_task(lease, capture(ValueError("not yet")))
    assert why(second) == f"Lane account-1 runs in strict order: {first.pk} started earlier and has not finished."


def test_with_room_it_tells_how_many_are_ahead_in_its_lane(why, enqueue):
    *_, last = enqueue(tasks.noop, 3, lane="a")
    enqueue(tasks.noop, 5)
    assert why(last) == "2 tasks are ahead of it in lane a."
