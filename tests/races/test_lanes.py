"""Eight connections at one lane: its limits hold at every instant, by the events alone."""

from __future__ import annotations

import time

import pytest

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import Completed, Lanes
from django_tasks_retry.verify.audit import verify
from django_tasks_retry.verify.lanes import Allowed
from tests import tasks
from tests.races.together import DEADLINE, together

CLAIMERS = 8


def work(worker: str, goal: int) -> int:
    """Claim and complete until all is done."""
    lanes, done, deadline = Lanes(slow=float("inf")), 0, time.monotonic() + DEADLINE
    while Task.objects.unfinished().exists() and time.monotonic() < deadline:
        lanes.closed_until.clear()
        leases = taskqueue.claim(worker, limit=goal, lanes=lanes)
        taskqueue.finish([Completed(lease) for lease in leases])
        done += len(leases)
    return done


@pytest.mark.fault("F260")
def test_eight_claimers_never_hold_more_leases_of_a_lane_than_its_limit(committed):
    Task.objects.enqueue_many([(tasks.sync, [1, n]) for n in range(60)] + [(tasks.heavy,) for _ in range(30)])
    assert sum(together(*[lambda n=n: work(f"claimer-{n}", 5) for n in range(CLAIMERS)])) == 90
    allowed = {"tenant-1": 2, "tests.tasks.heavy": 3}
    *_, audit = verify(committed, 60, limits=lambda lane: Allowed(allowed[lane], None, 0))
    assert audit.breaches == []
    # The same history does not fit a smaller limit, so it is the limit that was held.
    *_, audit = verify(committed, 60, limits=lambda lane: Allowed(allowed[lane] - 1, None, 0))
    assert {breach.rule for breach in audit.breaches} == {"limits"}


@pytest.mark.fault("F261")
def test_eight_claimers_start_no_more_in_any_window_than_the_rate_says(committed):
    Task.objects.enqueue_many([(tasks.call_api, ["a"]) for _ in range(20)])

    def claim_some(worker: str) -> int:
        lanes, taken = Lanes(slow=float("inf")), 0
        for _ in range(10):
            lanes.closed_until.clear()
            lanes.looked_at = float("-inf")
            leases = taskqueue.claim(worker, limit=2, lanes=lanes)
            taskqueue.finish([Completed(lease) for lease in leases])
            taken += len(leases)
        return taken

    assert sum(together(*[lambda n=n: claim_some(f"claimer-{n}") for n in range(CLAIMERS)])) == 5
    *_, audit = verify(committed, 60, limits=lambda lane: Allowed(None, 5, 60.0))
    assert audit.breaches == []
