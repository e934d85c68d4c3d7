"""Reports against recovery, cancellation and each other: one of the two wins, whole, and the other is told."""

from __future__ import annotations

from functools import partial

import pytest
from django.db import connections

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import Completed, Failed, Released
from tests import tasks
from tests.model.invariants import violations
from tests.races.together import together, wait_until

ROUNDS = 40
MANY = 60


def leased(count=1, worker="sup/1", lease=60.0, **options):
    Task.objects.enqueue_many([{"func": tasks.noop, **options} for _ in range(count)])
    return taskqueue.claim(worker, limit=count, lease=lease)


recover_from_the_dead = partial(taskqueue.recover, actor="sup", dead="sup/1")


def status_of(lease):
    return Task.objects.get(pk=lease.id).status


def test_of_a_cancel_and_a_completion_exactly_one_counts(committed):
    for _ in range(ROUNDS):
        [lease] = leased()
        [receipt], changed = together(
            partial(taskqueue.finish, [Completed(lease)]), partial(taskqueue.cancel, [lease.id])
        )
        if receipt.accepted:
            assert (status_of(lease), changed.done) == ("SUCCESS", [])
        else:
            assert (status_of(lease), changed.done, receipt.lost) == ("CANCELLED", [lease.id], "CANCELLED")
    assert violations(committed) == []


def test_of_a_recovery_and_a_completion_exactly_one_counts(committed):
    for _ in range(ROUNDS):
        [lease] = leased(max_attempts=1)
        [receipt], back = together(partial(taskqueue.finish, [Completed(lease)]), recover_from_the_dead)
        assert receipt.accepted is not bool(back)
        assert status_of(lease) == ("SUCCESS" if receipt.accepted else "FAILED")
    assert violations(committed) == []


def test_a_renewal_is_refused_from_the_moment_its_task_is_recovered(committed):
    for _ in range(ROUNDS):
        [lease] = leased(max_attempts=2)
        lost, back = together(partial(taskqueue.renew, [lease]), recover_from_the_dead)
        # A recovery passes by what is being renewed at this instant; the next one finds it.
        back = back or recover_from_the_dead()
        assert [one.lease.id for one in back] == [lease.id]
        assert lost in ({}, {lease.fence: "RECLAIMED"})
        assert taskqueue.renew([lease]) == {lease.fence: "RECLAIMED"}
    assert violations(committed) == []


def test_a_lease_that_runs_out_is_either_renewed_or_recovered(committed):
    """A worker renews for a few milliseconds at a time, and stops; the queue tries to take the task back meanwhile."""
    for _ in range(10):
        [lease] = leased(max_attempts=2, lease=0.004)

        def renew_until_lost(lease=lease):
            return next((lost for _ in range(30) if (lost := taskqueue.renew([lease], 0.004))), {})

        def recover_until_found(lease=lease):
            found = []
            wait_until(lambda: found.extend(taskqueue.recover()) or bool(found), "a recovery")
            return [one.lease.id for one in found]

        _, recovered = together(renew_until_lost, recover_until_found)
        assert recovered == [lease.id]
        assert taskqueue.renew([lease]) == {lease.fence: "RECLAIMED"}
        taskqueue.cancel([lease.id])
    assert violations(committed) == []


def test_two_recoveries_take_a_task_back_once(committed):
    leases = leased(MANY, max_attempts=2)
    back = together(*[recover_from_the_dead] * 4)
    assert sorted(one.lease.id for some in back for one in some) == sorted(lease.id for lease in leases)
    assert violations(committed) == []


@pytest.mark.fault("two_schedulers")
def test_two_reports_of_one_repeating_task_make_one_next_occurrence(committed):
    """A child and its supervisor both report the completion: the series goes on once."""
    for _ in range(ROUNDS):
        [lease] = leased(interval=3600)
        [own], [supervisors] = together(
            partial(taskqueue.finish, [Completed(lease)]), partial(taskqueue.finish, [Completed(lease, actor="sup")])
        )
        assert own.accepted is not supervisors.accepted
        [following] = Task.objects.using(committed).pending()
        taskqueue.cancel([following.pk])
    assert violations(committed) == []


def learn_that_the_table_is_small(using):
    """Then PostgreSQL reads all of it, in no order of ours, rather than look for each task."""
    if connections[using].vendor == "postgresql":
        with connections[using].cursor() as cursor:
            cursor.execute("VACUUM ANALYZE django_tasks_retry_task")


@pytest.mark.fault("deadlock_between_batches")
@pytest.mark.parametrize("other", ["renew", "cancel", "recover"])
def test_reports_and_others_about_the_same_many_tasks_never_deadlock(committed, other):
    for _ in range(8):
        leases = leased(MANY, max_attempts=2)
        learn_that_the_table_is_small(committed)
        backwards = leases[::-1]
        others = {
            "renew": partial(taskqueue.renew, backwards),
            "cancel": partial(taskqueue.cancel, [lease.id for lease in backwards]),
            "recover": recover_from_the_dead,
        }
        outcomes = [
            [Completed(lease), Failed(lease, ValueError("boom")), Released(lease, "shutdown")][n % 3]
            for n, lease in enumerate(backwards)
        ]
        together(
            partial(taskqueue.finish, outcomes),
            others[other],
            partial(taskqueue.renew_workers, ["sup/1"], 60.0, actor="sup"),
        )
        unfinished = Task.objects.using(committed).unfinished().values_list("pk", flat=True)
        taskqueue.cancel(list(unfinished))
    assert violations(committed) == []
