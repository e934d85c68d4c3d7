"""Claimers against each other, and against an operator who pauses their queue."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import ClaimMemory
from tests import tasks
from tests.model.invariants import violations
from tests.races.together import beside, together, wait_until
from tests.steps import stopped

CLAIMERS = 8


def claim_all(worker, limit=20):
    memory, taken = ClaimMemory(clock=stopped), []
    while leases := taskqueue.claim(worker, limit=limit, memory=memory):
        taken += leases
    return taken


@pytest.mark.fault("database_file_locked")
def test_eight_claimers_get_each_of_two_thousand_tasks_exactly_once(committed):
    enqueued = Task.objects.enqueue_many([(tasks.noop, [n]) for n in range(2000)])
    taken = together(*[lambda n=n: claim_all(f"claimer-{n}") for n in range(CLAIMERS)])
    claims = Counter(lease.id for leases in taken for lease in leases)
    assert claims == {task.pk: 1 for task in enqueued}
    assert violations(committed) == []


@pytest.mark.parametrize("on", ["postgresql"], indirect=True)
def test_a_claimer_passes_by_what_another_is_claiming_and_does_not_wait(committed):
    Task.objects.enqueue_many([(tasks.noop, [n]) for n in range(20)])
    mine, theirs, waited = beside(
        committed, partial(taskqueue.claim, "slow", limit=10), partial(taskqueue.claim, "quick", limit=20)
    )
    assert not waited
    assert (len(mine), len(theirs)) == (10, 10)
    assert not {lease.id for lease in mine} & {lease.id for lease in theirs}


def test_a_claim_never_takes_more_than_its_limit_from_many_lanes(committed):
    Task.objects.enqueue_many(
        [
            {"func": tasks.noop, "queue": queue, "priority": priority}
            for queue in ("default", "emails", "reports")
            for priority in (0, 5)
            for _ in range(20)
        ]
    )
    taken = together(*[lambda n=n: [taskqueue.claim(f"claimer-{n}", limit=7) for _ in range(2)] for n in range(4)])
    assert [len(leases) for claims in taken for leases in claims] == [7] * 8
    assert Task.objects.using(committed).running().count() == 56


def test_no_claim_that_begins_after_a_pause_takes_a_task(committed):
    Task.objects.enqueue_many([(tasks.noop, [n]) for n in range(400)])
    paused = []

    def claim_until_paused():
        """Return the tasks of a claim that began once the pause was known, with tasks still waiting."""
        memory = ClaimMemory(clock=stopped)
        while True:
            known = bool(paused)
            leases = taskqueue.claim("claimer", limit=2, memory=memory)
            if known:
                return leases

    def pause():
        try:
            wait_until(lambda: Task.objects.using(committed).running().exists(), "a first claim")
            taskqueue.pause("default", by="operator")
            Task.objects.enqueue_many([(tasks.noop, [n]) for n in range(10)])
        finally:
            paused.append(True)

    assert together(claim_until_paused, claim_until_paused, pause)[:2] == [[], []]
    assert taskqueue.claim("claimer") == []
    taskqueue.resume("default")
    left = Task.objects.using(committed).pending().count()
    assert len(claim_all("claimer")) == left >= 10


@pytest.mark.parametrize("on", ["postgresql"], indirect=True)
def test_an_operator_waiting_for_a_task_leaves_the_queue_to_claimers(committed):
    """The operator's lock on one task holds up nobody who claims others."""
    first, *others = Task.objects.enqueue_many([(tasks.noop, [n]) for n in range(5)])
    locked = Task.objects.using(committed).select_for_update()
    _, claimed, waited = beside(
        committed, partial(locked.get, pk=first.pk), partial(taskqueue.claim, "claimer", limit=5)
    )
    assert not waited
    assert {lease.id for lease in claimed} == {task.pk for task in others}
