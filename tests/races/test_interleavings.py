"""Any two verbs that overlap leave what they would have left one after the other.

The first verb acts in a transaction that stays open; the second acts on another connection until it is done or waits
for a lock; then the first commits. SQLite lets one writer in at a time, so there is nothing to interleave there.
"""

from __future__ import annotations

from datetime import timedelta
from functools import cache, partial
from itertools import product

import pytest

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Task, TaskEvent, TaskResult
from django_tasks_retry.rules.status import Status
from django_tasks_retry.taskqueue import Completed, Failed, Released
from tests import tasks
from tests.model.invariants import histories, violations
from tests.races.together import beside, wait_until

VERBS = {
    "claim": lambda lease, pk: taskqueue.claim("other"),
    "renew": lambda lease, pk: taskqueue.renew([lease]),
    "renew by supervisor": lambda lease, pk: taskqueue.renew_workers(["sup/1"], 60.0, actor="sup"),
    "complete": lambda lease, pk: taskqueue.finish([Completed(lease)]),
    "fail": lambda lease, pk: taskqueue.finish([Failed(lease, ValueError("boom"))]),
    "release": lambda lease, pk: taskqueue.finish([Released(lease, "shutdown")]),
    "recover": lambda lease, pk: taskqueue.recover(),
    "recover from the dead": lambda lease, pk: taskqueue.recover(actor="sup", dead="sup/1"),
    "cancel": lambda lease, pk: taskqueue.cancel([pk]),
    "retry": lambda lease, pk: taskqueue.retry([pk]),
    "reschedule": lambda lease, pk: taskqueue.reschedule([pk], eta=timedelta(hours=1)),
    "enqueue": lambda lease, pk: Task.objects.enqueue(tasks.noop, unique_key="key"),
    "prune": lambda lease, pk: list(taskqueue.prune(keep=dict.fromkeys(Status, 0.0))),
}
PASSES_BY = {
    "claim", "recover", "recover from the dead", "renew", "renew by supervisor", "complete", "fail", "release", "prune",
}  # fmt: skip
"""Verbs that leave alone what another holds at the moment."""

STATES = {
    "pending": ["claim", "cancel", "reschedule", "enqueue"],
    "held": [
        "renew", "renew by supervisor", "complete", "fail", "release", "recover", "recover from the dead", "cancel",
        "enqueue",
    ],
    "expired": ["renew", "complete", "recover", "recover from the dead", "cancel", "claim"],
    "finished": ["retry", "prune", "cancel", "enqueue"],
}  # fmt: skip


def stage(state):
    """One task in the given state, keyed and repeating, and its lease if it has one."""
    for model in (Task, TaskEvent, TaskResult):
        model.objects.all().delete()
    task = Task.objects.enqueue(tasks.noop, unique_key="key", interval=3600, max_attempts=2, backoff=[0])
    if state == "pending":
        return None, task.pk
    [lease] = taskqueue.claim("sup/1", lease=0.0001 if state == "expired" else 60.0)
    if state == "expired":
        wait_until(Task.objects.lease_expired().exists, "the lease to expire")
    if state == "finished":
        taskqueue.cancel([task.pk])
    return lease, task.pk


def story(using):
    """The rows at the end: tasks, and the events of each. Clears the stage."""
    told = histories(using)
    left = [
        (task.status, task.attempts, task.refunds, task.eta > task.created_at, [event.kind for event in told[task.pk]])
        for task in Task.objects.order_by("pk")
    ]
    broken = violations(using)
    taskqueue.cancel(list(Task.objects.unfinished().values_list("pk", flat=True)))
    return broken or left


def one_after_the_other(using, state, *verbs):
    ticket = stage(state)
    for verb in verbs:
        VERBS[verb](*ticket)
    return story(using)


def overlapping(using, state, first, second):
    ticket = stage(state)
    beside(using, partial(VERBS[first], *ticket), partial(VERBS[second], *ticket))
    return story(using)


@pytest.mark.parametrize("on", ["postgresql"], indirect=True)
@pytest.mark.parametrize("state", STATES)
def test_overlapping_verbs_leave_what_they_would_leave_one_after_the_other(committed, state):
    serial = cache(partial(one_after_the_other, committed, state))
    strange = {}
    for first, second in product(STATES[state], repeat=2):
        legal = [serial(first, second), serial(second, first)]
        legal += [serial(first)] if second in PASSES_BY else []
        left = overlapping(committed, state, first, second)
        if left not in legal:
            strange[first, second] = left
    assert strange == {}
