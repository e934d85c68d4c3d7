"""--drain ends when nothing is due that it may run: not before, whatever is full at the moment, and not later."""

from __future__ import annotations

import pytest

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Task
from tests import tasks as unknown_to_workers
from tests.steps import claim_one, now_of

from . import tasks
from .harness import wait_for

LABELS = {"queue": "queue:emails", "function": "function:tests.worker.tasks.plain.canary", "lane": "stripe"}
LIMITS = {"running": {"concurrency": 1}, "rate": {"rate": (2, 0.5)}}
PAUSES = {
    "queue": lambda: taskqueue.pause("emails", by="tests"),
    "function": lambda: taskqueue.pause(LABELS["function"], kind="lane", by="tests"),
    "lane": lambda: taskqueue.pause("stripe", kind="lane", by="tests"),
}


def enqueue(count: int = 1, **options) -> list[Task]:
    return Task.objects.enqueue_many([{"func": tasks.canary, "queue": "emails", "lane": "stripe", **options}] * count)


def statuses(enqueued: list[Task]) -> set[str]:
    return {now_of(task).status for task in enqueued}


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("kind", LABELS)
def test_the_first_drain_of_what_is_limited_leaves_nothing(start, effects, kind, limit):
    enqueued = enqueue(5, lane="stripe" if kind == "lane" else "")
    worker = start("--drain", lanes={LABELS[kind]: LIMITS[limit]})
    assert worker.exit_code() == 0
    assert statuses(enqueued) == {"SUCCESS"}


@pytest.mark.parametrize("kind", LABELS)
def test_it_waits_for_room_that_a_task_of_another_worker_takes(start, effects, kind):
    enqueued = enqueue(3)
    elsewhere, other = claim_one("elsewhere", lease=600), Task.objects.enqueue(tasks.say_pid)
    worker = start("--drain", lanes={LABELS[kind]: {"concurrency": 1}})
    wait_for(lambda: now_of(other).finished_at, "a task that is not limited")
    taskqueue.complete_task(elsewhere)
    assert worker.exit_code() == 0
    assert statuses(enqueued) == {"SUCCESS"}


@pytest.mark.parametrize("kind", PAUSES)
def test_it_does_not_wait_for_what_is_paused(start, effects, kind):
    enqueued, other = enqueue(2), Task.objects.enqueue(tasks.say_pid)
    PAUSES[kind]()
    worker = start("--drain", lanes={"stripe": {"concurrency": 1}})
    assert worker.exit_code() == 0
    assert (statuses(enqueued), now_of(other).status) == ({"PENDING"}, "SUCCESS")


def test_it_does_not_wait_for_what_it_may_not_run(start, effects):
    unserved, unknown, behind = enqueue(queue="bulk"), enqueue(func=unknown_to_workers.noop), enqueue(2)
    taskqueue.fail_task(
        claim_one("elsewhere", queues=["emails"]), ValueError("no")
    )  # it is due again later, and goes first
    worker = start("--drain", "--queues", "emails", lanes={"stripe": {"order": "strict"}})
    assert worker.exit_code() == 0
    assert statuses(unserved + unknown + behind) == {"PENDING"}


def test_nothing_is_left_behind_if_lanes_fill_many_pages_and_looks_rest(start, effects):
    rows = [{"func": tasks.canary, "priority": n % 48} for n in range(96)]
    enqueued = Task.objects.enqueue_many(rows)
    arguments = ("--drain", "--processes", "2", "--threads", "2")
    worker = start(*arguments, variables={"WORKER_APPS": "tests.lanes.small_pages.SmallPages"})
    assert worker.exit_code() == 0
    assert statuses(enqueued) == {"SUCCESS"}
