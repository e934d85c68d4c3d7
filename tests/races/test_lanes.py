"""Eight connections at one lane: its limits hold at every instant, by the events alone."""

from __future__ import annotations

import time

import pytest

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import ClaimMemory, Completed
from django_tasks_retry.verify.audit import verify
from django_tasks_retry.verify.lanes import Allowed, Limits
from tests import tasks
from tests.lanes.test_limits import with_lanes
from tests.races.together import DEADLINE, together
from tests.steps import Clock

CLAIMERS = 8


def work(worker: str, goal: int, *, is_hasty: bool = True) -> int:
    """Claim and complete until all is done; in haste, also from what was full a moment ago."""
    clock, done, deadline = Clock(), 0, time.monotonic() + DEADLINE
    memory = ClaimMemory(clock=clock)
    while Task.objects.unfinished().exists() and time.monotonic() < deadline:
        clock.advance(0.3 if is_hasty else 0.1)
        leases = taskqueue.claim(worker, limit=goal, memory=memory)
        taskqueue.finish([Completed(lease) for lease in leases])
        done += len(leases)
        if not leases:
            time.sleep(0.02)  # SQLite's lock is not fair: others could wait for it until their deadline
    return done


@pytest.mark.fault("last_places_of_a_lane")
def test_eight_claimers_never_hold_more_leases_of_a_lane_than_its_limit(committed):
    Task.objects.enqueue_many([(tasks.sync, [1, n]) for n in range(60)] + [(tasks.heavy,) for _ in range(30)])
    assert sum(together(*[lambda n=n: work(f"claimer-{n}", 5) for n in range(CLAIMERS)])) == 90
    assert_just_kept(committed, {"tenant-1": 2, "tests.tasks.heavy": 3})


def assert_just_kept(using: str, most: dict[str, int]) -> None:
    """The same history does not fit smaller limits, so it is the limits that were held."""

    def less(count: int) -> Limits:
        return lambda label: Allowed(most[label] - count if label in most else None, None, 0)

    *_, audit = verify(using, 60, limits=less(0))
    assert audit.breaches == []
    *_, audit = verify(using, 60, limits=less(1))
    assert [breach.rule for breach in audit.breaches] == ["limits"] * len(most)


@pytest.mark.fault("last_places_of_a_lane")
def test_eight_claimers_never_hold_more_leases_of_a_whole_queue_or_function_than_its_limit(committed, settings):
    most = {"queue:emails": 3, "function:tests.tasks.add": 2}
    settings.TASKS = with_lanes(settings.TASKS, {label: {"concurrency": count} for label, count in most.items()})
    requests = [taskqueue.EnqueueOptions(tasks.noop, queue="emails") for _ in range(10)]
    requests += [taskqueue.EnqueueOptions(tasks.add, [1, 2], lane=f"t{n % 3}" if n % 2 else "") for n in range(10)]
    taskqueue.enqueue_many(requests)
    assert sum(together(*[lambda n=n: work(f"claimer-{n}", 5, is_hasty=False) for n in range(CLAIMERS)])) == 20
    assert_just_kept(committed, most)


@pytest.mark.fault("last_starts_of_a_window")
def test_eight_claimers_start_no_more_in_any_window_than_the_rate_says(committed):
    Task.objects.enqueue_many([(tasks.call_api, ["a"]) for _ in range(20)])

    def claim_some(worker: str) -> int:
        clock, taken = Clock(), 0
        memory = ClaimMemory(clock=clock)
        for _ in range(10):
            clock.advance()
            leases = taskqueue.claim(worker, limit=2, memory=memory)
            taskqueue.finish([Completed(lease) for lease in leases])
            taken += len(leases)
        return taken

    assert sum(together(*[lambda n=n: claim_some(f"claimer-{n}") for n in range(CLAIMERS)])) == 5
    *_, audit = verify(committed, 60, limits=lambda lane: Allowed(None, 5, 60.0))
    assert audit.breaches == []
